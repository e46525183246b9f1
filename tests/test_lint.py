"""The tree is free of errors of style, most of which `make format` mends, and of types."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("command", [["check"], ["format", "--check", "--diff"]], ids=" ".join)
def test_ruff_has_no_complaints(command):
    result = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "."], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, f"\n{result.stdout}{result.stderr}"


def test_mypy_has_no_complaints():
    result = subprocess.run(
        [sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, f"\n{result.stdout}{result.stderr}"
