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
"""What costs of a step can be given for; see `AdaptationPipeline.stages`."""
_NEEDED = ("predict", "adapt")
_ROUNDING = 1e-9  # seconds: a step of 0.1 s is done when the next frame of ten per second arrives


@checked
class FrameClock:
    """Decides which frames of a stream a busy model misses.

    Time is simulated from the cost of every step, so the same costs always miss the same frames. A
    frame that arrives while a step is under way is missed. Nothing is queued.

    Following "Evaluation of Test-Time Adaptation Under Computational Time Constraints" (Alfarra et
    al., ICML 2024), the result of a step, an updated model or a label map, is available when its
    time is over, not earlier: :attr:`finished` is what a missed frame is answered with.

    Args:
        frame_rate: Frames per second.
        missed: ``"answer"``: missed frames are predicted by the last finished model, which runs
            beside the adaptation and keeps pace. ``"drop"``: nothing is computed, and the last
            finished label map is shown again. Defaults to ``"answer"``.
        step_seconds: Seconds of every step, or seconds by stage (`STAGES`; ``predict`` and
            ``adapt`` are required, the others default to 0). None if they are to be measured.
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
        """Refuse invalid costs of a step."""
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
        """Move the time on to the arrival of the last frame of the next batch."""
        self.frames += frames

    @property
    def seconds(self) -> float:
        """The arrival of the newest frame; the first one of a stream arrives at 0."""
        return (self.frames - 1) / self.frame_rate

    @property
    def is_busy(self) -> bool:
        """Whether a step is still under way, so that the newest batch is missed."""
        return self.seconds < self.free_at - _ROUNDING

    def spend(self, work: Iterable[str]) -> None:
        """Begin a step of these stages, now."""
        assert self.step_seconds is not None
        cost = self.step_seconds
        if isinstance(cost, Mapping):
            cost = sum(cost.get(stage, 0.0) for stage in work)
        self.free_at = self.seconds + cost

    def report(self) -> dict[str, Any]:
        """Return the options, the measured costs included, as plain data."""
        options = {"frame_rate": self.frame_rate, "missed": self.missed}
        return {**options, "step_seconds": self.step_seconds}

    def state_dict(self) -> dict[str, Any]:
        """Return the time, the costs, and what missed frames are answered with."""
        names = ("step_seconds", "finished", "running", "frames", "free_at")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
