"""A simulated camera: frames arrive at a fixed rate, whether or not the model is ready."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from annotated_types import Interval

from ..errors import ReservoirError
from ..registry import checked

FrameRate = Annotated[float, Interval(gt=0, lt=math.inf), "a number of frames per second above 0"]

STAGES = ("style", "predict", "adapt", "probe", "trial")
"""Stages of a step that can have a cost; see `AdaptationPipeline.stages`."""
_NEEDED = ("predict", "adapt")
_ROUNDING = 1e-9  # seconds: at 10 frames per second, a step of 0.1 s ends before the next frame


@checked
class FrameClock:
    """A simulated clock that determines which frames of a stream a busy model misses.

    A frame that arrives during a step is missed; nothing is queued. Time is computed from the
    costs of the steps, so the same costs always miss the same frames.

    The result of a step, an updated model or a label map, is available only when its time is over.
    :attr:`finished` is the result that answers a missed frame. This follows "Evaluation of
    Test-Time Adaptation Under Computational Time Constraints" (Alfarra et al., ICML 2024).

    Args:
        frame_rate: Frames per second.
        missed: How to answer missed frames. ``"answer"``: by a prediction of the last finished
            model, which runs beside the adaptation at no cost. ``"drop"``: by the last finished
            label map, without any computation. Defaults to ``"answer"``.
        step_seconds: Seconds per step, or seconds by stage (`STAGES`; ``predict`` and ``adapt``
            are required, the others default to 0). Defaults to None: measured.
    """

    def __init__(
        self,
        frame_rate: FrameRate,
        missed: Literal["answer", "drop"] = "answer",
        step_seconds: float | Mapping[str, Any] | None = None,
    ) -> None:
        self.check(step_seconds)
        self.frame_rate = frame_rate
        self.missed = missed
        self.step_seconds: float | dict[str, float] | None = (
            dict(step_seconds) if isinstance(step_seconds, Mapping) else step_seconds
        )
        """The costs; None until they are measured."""
        self.finished: Any = None
        """The state of the pipeline, or the label map, from before the current step."""
        self.running: Any = None
        """The label map of the current step, which is not finished yet."""
        self.frames = 0
        """How many have arrived."""
        self.free_at = 0.0
        """When the current step ends, in seconds."""

    @staticmethod
    def check(step_seconds: float | Mapping[str, Any] | None) -> None:
        """Raise an error if the costs of a step are invalid."""
        if step_seconds is None:
            return
        where = "test_cfg.step_seconds"
        if isinstance(step_seconds, Mapping):
            unknown = sorted(set(step_seconds) - set(STAGES))
            lacking = [name for name in _NEEDED if name not in step_seconds]
            if unknown or lacking:
                raise ReservoirError(
                    f"{where} needs {' and '.join(_NEEDED)}, and may have style, probe and trial, "
                    f"got {', '.join(step_seconds) or 'nothing'}"
                )
            costs = [(f"{where}.{name}", cost) for name, cost in step_seconds.items()]
        else:
            costs = [(where, step_seconds)]
        for name, cost in costs:
            number = isinstance(cost, int | float) and not isinstance(cost, bool)
            if not (number and math.isfinite(cost) and cost >= 0):
                raise ReservoirError(f"{name} must be seconds, 0 or more, got {cost!r}")

    def arrive(self, frames: int) -> None:
        """Advance the time to the arrival of the last frame of the next batch."""
        self.frames += frames

    @property
    def seconds(self) -> float:
        """Arrival time of the newest frame in seconds; the first frame arrives at 0."""
        return (self.frames - 1) / self.frame_rate

    @property
    def is_busy(self) -> bool:
        """Whether a step is still under way, so that the newest batch is missed."""
        return self.seconds < self.free_at - _ROUNDING

    def spend(self, work: Iterable[str]) -> None:
        """Start a step with these stages at the current time."""
        assert self.step_seconds is not None
        cost = self.step_seconds
        if isinstance(cost, Mapping):
            cost = sum(cost.get(stage, 0.0) for stage in work)
        self.free_at = self.seconds + cost

    def report(self) -> dict[str, Any]:
        """Return the options and the measured costs as plain data."""
        options = {"frame_rate": self.frame_rate, "missed": self.missed}
        return {**options, "step_seconds": self.step_seconds}

    def state_dict(self) -> dict[str, Any]:
        """Return the time, the costs, and the result that answers missed frames."""
        names = ("step_seconds", "finished", "running", "frames", "free_at")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
