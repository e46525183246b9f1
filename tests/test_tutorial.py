"""The code blocks of docs/tutorial.md run, in their order, in an empty folder."""

import importlib
import json
import re
import shlex
from pathlib import Path

import pytest

from mmseg_reservoir.cli.app import find_verb

TEXT = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(python|shell)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def commands(block):
    """Return verb and arguments of each line: ``reservoir VERB`` or ``python tools/NAME.py``."""
    for line in block.replace("\\\n", " ").strip().splitlines():
        command, name, *arguments = shlex.split(line)
        if command == "python":
            tool = re.fullmatch(r"tools/(\w+)\.py", name)[1]
            yield importlib.import_module(f"tools.{tool}").main, arguments
        else:
            assert command == "reservoir"
            yield find_verb(name), arguments


def run_shell(block):
    """In this process, which has mmseg already."""
    for verb, arguments in commands(block):
        assert verb(arguments) in (0, None)


def test_every_block_can_be_read():
    for language, block in BLOCKS:
        if language == "python":
            compile(block, "tutorial.md", "exec")
        else:
            assert all(verb.parse(arguments) for verb, arguments in commands(block))


@pytest.mark.slow
def test_every_block_runs(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names = {}
    assert {language for language, _ in BLOCKS} == {"python", "shell"}
    for language, block in BLOCKS:
        run_shell(block) if language == "shell" else exec(block, names)
    assert names["tuesday"].model.frozen
    # Three frames of the night are too few for a domain: they were predicted, not learned from.
    assert names["tuesday"].model.pipeline.method.counts["updates"] == 0
    assert len((tmp_path / "night" / "stream.jsonl").read_text().splitlines()) == 6
    assert "6 frames to train on" in capfd.readouterr().out
    results = json.loads((tmp_path / "scored" / "results.json").read_text())
    assert results["complete"]
    assert results["visits"][0]["mIoU"] > 10
