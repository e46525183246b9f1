"""A user's own parts, from a file outside of the package, in both tasks."""

import inspect
import json
import sys

import pytest
from stream_run import TINY, run

from mmseg_reservoir.cli import classify
from mmseg_reservoir.registry import find

PARTS = [("router", "nearest"), ("statistic", "extent"), ("method", "agree"), ("params", "biases")]
OPTIONS = """
custom_imports = dict(imports=["own_parts"], allow_failed_imports=False)
params = dict(_delete_=True, type="biases")
method = dict(type="agree", momentum=0.9)
reservoir = dict(style=dict(weights="seeded", statistic="extent"), router=dict(type="nearest"))
"""


@pytest.fixture(autouse=True)
def _not_imported_yet(monkeypatch):
    """The config has to import them."""
    monkeypatch.delitem(sys.modules, "own_parts", raising=False)


@pytest.mark.parametrize(("kind", "name"), PARTS)
def test_a_part_takes_at_most_30_lines(kind, name):
    import own_parts  # noqa: F401

    part = find(kind, name)
    assert part.__module__ == "own_parts"
    assert len(inspect.getsource(part).splitlines()) <= 30


def test_they_segment(minicity, tmp_path):
    config = tmp_path / "own.py"
    cache = f"reservoir['calibration'] = dict(cache={str(tmp_path)!r})\n"
    config.write_text(f"_base_ = {str(TINY / 'segformer-tiny_tent.py')!r}\n{OPTIONS}{cache}")
    results = run(config, minicity, tmp_path / "w", "reservoir.router.radius=0.9")
    assert results["method"] == "Agree"
    source = sum(route["expert"] == 0 for route in results["routes"])
    assert results["updates"]["updates"] == 12 - source > 6
    assert results["routes"][-1]["k"] > 1
    assert results["options"]["reservoir"]["router"] == {"type": "nearest", "radius": 0.9}
    assert results["options"]["params"] == {"type": "biases", "under": "backbone"}


def test_they_classify(tmp_path):
    config = tmp_path / "own.py"
    base = TINY.parent / "cls/digits_convnet.py"
    config.write_text(f"_base_ = {str(base)!r}\n{OPTIONS}stream = dict(rounds=1)\n")
    assert classify.main([str(config), f"--work-dir={tmp_path / 'w'}"]) == 0
    results = json.loads((tmp_path / "w/results.json").read_text())
    assert results["method"] == "Agree"
    assert results["updates"]["updates"] == 24
    assert results["routes"][-1]["k"] > 1
    assert results["options"]["reservoir"]["style"]["statistic"] == "extent"
