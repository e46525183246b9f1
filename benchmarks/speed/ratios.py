"""Ratios of reservoirs to their base, and the split of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.speed.cases import Case, settle_guard
from benchmarks.speed.interleaved import Spread, interleave, over
from benchmarks.speed.split import STAGES, timed
from mmseg_reservoir.core.outcome import Outcome
from mmseg_reservoir.core.pipeline import AdaptationPipeline

Figures = dict[str, float | str]
Clock = Callable[[], float]
_WARM_UP = 1


def compare(
    case: Case, variants: Sequence[str], k: int, rounds: int, clock: Clock, split: bool = True
) -> Figures:
    """Return the steps of reservoirs over those of the base, in turn on the same inputs.

    Args:
        case: Method, network and size.
        variants: Names in `cases.VARIANTS`, or ``naive``.
        k: Number of experts.
        rounds: Number of measured inputs.
        clock: Clock in seconds.
        split: Also measure the parts of one more step of each. Defaults to True.
    """
    pipelines = {"base": case.base()} | {v: case.reservoir(v, k) for v in variants}
    seconds = {name: _Second(pipeline) for name, pipeline in pipelines.items()}
    inputs = case.inputs(_WARM_UP + rounds)
    interleave(seconds, inputs[:_WARM_UP], clock)
    for step in seconds.values():
        step.passes.clear()
    times = interleave(seconds, inputs[_WARM_UP:], clock)
    figures: Figures = {}
    for name in variants:
        row = f"{case.name}/k{k}/{name}"
        ratio = Spread.of(over(times, name, "base"))
        if getattr(pipelines[name], "guard", None) is not None:
            figures |= ratio.named(f"ratio-without-probes/{row}")
            ratio = _with_probes(pipelines, name, k, ratio, case, clock)
        figures |= ratio.named(f"ratio/{row}")
        figures[f"second-passes/{row}"] = round(seconds[name].share(), 3)
        if name != "naive" and "naive" in variants:
            figures |= Spread.of(over(times, "naive", name)).named(f"naive-over/{row}")
    if split:
        for name in pipelines:
            if name != "naive":
                row = case.name if name == "base" else f"{case.name}/k{k}/{name}"
                figures |= _split(
                    pipelines[name], case, clock, row, Spread.of(times["base"]).median
                )
    return figures


class _Second:
    """A pipeline's step that records whether it ran a forward pass of the ensemble."""

    def __init__(self, pipeline: AdaptationPipeline) -> None:
        self.pipeline = pipeline
        self.passes: list[bool] = []

    def __call__(self, inputs: object) -> Outcome:
        outcome = self.pipeline.step(inputs)
        is_alone = getattr(self.pipeline, "_is_alone", lambda route: route.weights.numel() == 1)
        self.passes.append(not is_alone(outcome.route))
        return outcome

    def share(self) -> float:
        """Return the share of steps with such a pass."""
        return sum(self.passes) / max(1, len(self.passes))


def _with_probes(
    pipelines: dict[str, AdaptationPipeline],
    name: str,
    k: int,
    quiet: Spread,
    case: Case,
    clock: Clock,
) -> Spread:
    """Return the ratio of a guarded reservoir over the steps between two probes."""
    guarded = pipelines[name]
    settle_guard(guarded, k, due=True)
    pair = {"base": pipelines["base"].step, name: guarded.step}
    probe = over(interleave(pair, case.inputs(1, seed=2), clock), name, "base")[0]
    settle_guard(guarded, k)
    # One pass per `every` batches; a map's probe has three of them.
    interval = guarded.guard.every * (1 if case.classifies else 3)
    return Spread(*(value + max(0.0, probe - value) / interval for value in quiet))


def _split(
    pipeline: AdaptationPipeline, case: Case, clock: Clock, row: str, base: float
) -> Figures:
    """Return the parts of a step as shares of the base's step."""
    with timed(pipeline, clock) as watch:
        pipeline.step(case.inputs(1, seed=3)[0])
    return {f"split/{row}/{part}": float(f"{watch.seconds[part] / base:.3g}") for part in STAGES}


def literal_cotta(rounds: int, clock: Clock, size: str = "256x512") -> Figures:
    """Compare CoTTA* with its literal form in time, and in the difference of predictions."""
    ours, literal = (Case(name, "segformer-b0", size) for name in ("cotta", "cotta-literal"))
    pair = {"ours": ours.base(), "literal": literal.base()}
    inputs = ours.inputs(rounds)
    far = max(
        float(
            (one.step(inputs[0]).logits.softmax(1) - two.step(inputs[0]).logits.softmax(1))
            .abs()
            .max()
        )
        for one, two in [(pair["ours"], pair["literal"])]
    )
    times = interleave({name: p.step for name, p in pair.items()}, inputs, clock)
    name = f"{ours.name}/literal-over-ours"
    figures = Spread.of(over(times, "literal", "ours")).named(f"ratio/{name}")
    return {**figures, f"difference/{name}": float(f"{far:.2g}")}
