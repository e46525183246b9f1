"""The way from options to objects is a straight line: no module on it is returned to.

A module is *returned to* if a call from another module enters it while an earlier call into it
is still under way. That is the ping-pong that makes a set-up hard to follow. Methods of one object
that call each other across the files of its classes are one place, and ``errors``, ``options`` and
``files`` are words that everybody uses.
"""

import sys
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from stream_run import TINY
from torch import nn

import mmseg_reservoir
from mmseg_reservoir.cls import AdaptiveClassifier
from mmseg_reservoir.seg import AdaptationHook

PACKAGE = Path(mmseg_reservoir.__file__).parent
WORDS = {"errors", "options", "files"}


class Recorder:
    """Follows calls; knows which modules of the package were entered, and which returned to."""

    def __init__(self):
        self.stack, self.entered, self.returned = [], [], []

    def __call__(self, frame, event, argument):
        if event == "call":
            self.stack.append(self._place(frame))
            self._look()
        elif event == "return" and self.stack:
            self.stack.pop()

    def _place(self, frame):
        path = Path(frame.f_code.co_filename)
        if PACKAGE not in path.parents:
            return None
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        return None if name in WORDS else (name, id(frame.f_locals.get("self", frame)))

    def _look(self):
        new = self.stack[-1]
        if new is None:
            return
        before = [place for place in self.stack[:-1] if place is not None]
        if before and before[-1][0] == new[0]:
            return  # within a module
        self.entered.append(new[0])
        under_way = [name for name, _ in before]
        if new[0] in under_way and not any(owner == new[1] for _, owner in before):
            self.returned.append(" -> ".join([*under_way, new[0]]))

    def __enter__(self):
        sys.setprofile(self)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)


def classifier():
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8, 4))


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["published", "stream"])
def test_the_set_up_of_a_classifier_returns_to_no_module(preset):
    source = [torch.rand(4, 3, 16, 16) for _ in range(50)]
    options = dict(method="eata", reservoir=preset, source=source)
    with Recorder() as recorder:
        AdaptiveClassifier(classifier(), **options)
    assert recorder.returned == []
    assert {"cls.classifier", "build", "style.calibration", "methods.eata"} <= set(recorder.entered)


@pytest.mark.parametrize("preset", ["published", pytest.param("stream", marks=pytest.mark.slow)])
def test_the_set_up_of_a_segmentor_returns_to_no_module(minicity, tmp_path, preset, monkeypatch):
    cfg = Config.fromfile(TINY / "segformer-tiny_tent_reservoir.py")
    cfg.merge_from_dict(
        {
            "test_dataloader.dataset.data_root": str(minicity),
            "source_images.data_root": f"{minicity}/rgb_anon/clear/train",
            "test_cfg.rounds": 1,
            "test_cfg.domains": ["fog"],
            "method.type": "eata",
            "reservoir.preset": preset,
            "reservoir.calibration.cache": str(tmp_path),
        }
    )
    cfg.load_from, cfg.work_dir = None, str(tmp_path)
    recorder, before_test = Recorder(), AdaptationHook.before_test

    def recorded(self, runner):
        with recorder:
            before_test(self, runner)

    monkeypatch.setattr(AdaptationHook, "before_test", recorded)
    Runner.from_cfg(cfg).test()
    assert recorder.returned == []
    assert {"seg.source_images", "build", "style.calibration", "methods.eata"} <= set(
        recorder.entered
    )


def test_the_recorder_sees_a_module_that_is_returned_to():
    one, other = {}, {}
    for name, scope, lines in (
        ("one", one, ["def start(f): return f()", "def help(): return 1"]),
        ("other", other, ["def visit(): return help()"]),
    ):
        exec(compile("\n".join(lines), str(PACKAGE / f"{name}.py"), "exec"), scope)
    other["help"] = one["help"]
    with Recorder() as recorder:
        one["start"](other["visit"])
    assert recorder.entered == ["one", "other", "one"]
    assert recorder.returned == ["one -> other -> one"]
