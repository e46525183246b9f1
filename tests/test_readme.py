"""The code blocks of the README do what they say."""

import re
from pathlib import Path

import pytest
import torch
from small_net import make_classifier

from mmseg_reservoir.options import find, table

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def block(word):
    """The block that has a word in it."""
    (code,) = [code for code in BLOCKS if word in code]
    return code


def test_the_core_composed_by_hand(monkeypatch):
    code = block("ReservoirPipeline(")
    lines = [line for line in code.splitlines() if line and "import" not in line]
    assert len(lines) <= 10
    torch.manual_seed(0)
    dark = [torch.randn(4, 3, 16, 16) / 9 for _ in range(3)]
    names = {
        "net": make_classifier(),
        "source_batches": [torch.randn(4, 3, 16, 16) for _ in range(50)],
        "stream": dark,
    }
    exec(code, names)
    assert names["logits"].shape == (4, 5)
    assert len(names["pipeline"].reservoir) == 2
    assert names["method"].counts["updates"] == 3


@pytest.fixture
def _without_sharpen():
    yield
    table("method").pop("sharpen", None)


@pytest.mark.usefixtures("_without_sharpen")
def test_a_method_of_ones_own():
    names = {"torch": torch}
    exec(block("sharpen"), names)
    assert find("method", "sharpen") is names["Sharpen"]


def test_every_kind_of_part_is_named():
    kinds = set(re.findall(r'`"(\w+)"`', README[README.index("Likewise") :]))
    from mmseg_reservoir.options import KINDS

    assert set(KINDS) - kinds == {"method", "space"}
