from types import SimpleNamespace

import torch
from torch import nn

from mmseg_reservoir.report import step_watch
from mmseg_reservoir.report.step_watch import StepWatch


class Clock:
    """Every look at it is a second later."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        self.now += 1
        return self.now


def watched(monkeypatch, encoder, model):
    monkeypatch.setattr(step_watch, "time", Clock())
    return StepWatch(SimpleNamespace(encoder=encoder), model)


def test_a_style_is_taken_once_with_its_times(monkeypatch):
    encoder, model = nn.Linear(3, 2), nn.Linear(3, 2)
    watch = watched(monkeypatch, encoder, model)
    assert watch.take() is None
    style = encoder(torch.ones(3))  # seconds 1 and 2
    model(torch.ones(3))  # second 3
    model(torch.ones(3))  # the routing is over: not looked at
    assert torch.equal(watch.take(), style)
    assert watch.take() is None
    assert watch.seconds == {"style": 1.0, "route": 1.0}


def test_what_is_no_part_of_the_stream_leaves_no_trace(monkeypatch):
    encoder, model = nn.Linear(3, 2), nn.Linear(3, 2)
    watch = watched(monkeypatch, encoder, model)
    for value in (0.0, 1.0):
        style = encoder(torch.full((3,), value))
        model(torch.ones(3))
    assert torch.equal(watch.take(), style)
    assert watch.seconds == {"style": 1.0, "route": 1.0}


def test_an_encoder_that_runs_the_model_is_one_stage(monkeypatch):
    model = nn.Sequential(nn.Linear(3, 2))
    encoder = nn.Sequential(model, nn.ReLU())
    watch = watched(monkeypatch, encoder, model)
    encoder(torch.ones(3))
    model[0](torch.ones(3))  # as a sliding window does
    watch.take()
    assert watch.seconds == {"style": 1.0, "route": 1.0}


def test_nothing_is_seen_of_what_is_no_module_and_after_the_end(monkeypatch):
    model = nn.Linear(3, 2)
    for encoder in (None, lambda inputs: inputs):
        assert StepWatch(SimpleNamespace(encoder=encoder), model).take() is None
    assert not model._forward_pre_hooks
    encoder = nn.Linear(3, 2)
    watch = watched(monkeypatch, SimpleNamespace(encoder=encoder), model)  # behind a conversion
    watch.close()
    encoder(torch.ones(3))
    assert watch.take() is None
