"""Growth of time with experts, stored styles, parameters and pixels; bytes; calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from benchmarks.speed.cases import Case
from benchmarks.speed.interleaved import Spread, interleave
from benchmarks.speed.ratios import Clock, Figures
from benchmarks.speed.recurring import Styles
from mmseg_reservoir.config.presets import with_preset
from mmseg_reservoir.config.reservoir_builder import ReservoirBuilder
from mmseg_reservoir.core.reservoir import Reservoir
from mmseg_reservoir.style import Calibration, StyleEncoder

_WIDTHS = {"logvar": [64, 128, 128], "mean_var": [128, 256, 256]}
"""Lengths of the blocks of a style, by statistic."""


def route_cost(
    preset: str, k: int, rounds: int, clock: Clock, capacity: int | None = None
) -> Spread:
    """Return the seconds of one route among ``k`` domains, with a style memory of ``capacity``."""
    options = {"preset": preset, "k_max": k}
    if capacity is not None:
        options["memory"] = {"capacity": capacity}
    groups = _WIDTHS[with_preset(options)["style"]["statistic"]]
    styles = Styles(k, sum(groups))
    router = ReservoirBuilder(options, seed=0).build_router()
    router.fit(Calibration(styles.draw(0, 120), groups=groups))
    for condition in [c for _ in range(2) for c in range(1, k)]:
        for style in styles.draw(condition, 16):
            router.route(style, may_open=True, domain=None)
    for style in styles.draw(0, max(0, (capacity or 0) - 32 * k)):  # until the memory is full
        router.route(style, may_open=True, domain=None)
    drawn = [styles.draw(i % k)[0] for i in range(rounds)]
    step: Callable = lambda style: router.route(style, may_open=True, domain=None)  # noqa: E731
    return Spread.of(interleave({"route": step}, drawn, clock)["route"])


def with_experts(counts: Iterable[int], rounds: int, clock: Clock) -> Figures:
    """Return the route's time over that of the smallest K, per preset."""
    figures: Figures = {}
    for preset in ("published", "stream"):
        seconds = {k: route_cost(preset, k, rounds, clock).median for k in counts}
        first = min(seconds)
        for k, value in seconds.items():
            figures[f"growth/route/{preset}/k{k}-over-k{first}"] = float(
                f"{value / seconds[first]:.3g}"
            )
            figures[f"milliseconds/route/{preset}/k{k}"] = float(f"{1000 * value:.3g}")
    return figures


def with_memory(capacities: Iterable[int], rounds: int, clock: Clock) -> Figures:
    """Return the route's time over that of the smallest style memory, at K = 4."""
    seconds = {n: route_cost("published", 4, rounds, clock, n).median for n in capacities}
    first = min(seconds)
    return {
        f"growth/route/published/memory{n}-over-{first}": float(f"{value / seconds[first]:.3g}")
        for n, value in seconds.items()
    }


def swap_cost(net: str, size: str, rounds: int, clock: Clock) -> Figures:
    """Return the time of check-out and commit over that of a step, by adapted parameters."""
    figures: Figures = {}
    for method in ("tent", "lora", "all"):
        case = Case(method, net, size)
        pipeline = case.base()
        space = pipeline.method.space
        reservoir = Reservoir(pipeline.source, pipeline.method.domain_state(), k_max=4)
        for _ in range(3):
            reservoir.add(pipeline.source, pipeline.method.fresh_domain_state())

        def swap(x: torch.Tensor, reservoir=reservoir, method=pipeline.method) -> None:
            method.load(*reservoir.checkout(1))
            reservoir.commit(1, method.space.values.detach(), method.domain_state())

        times = interleave({"swap": swap, "step": pipeline.step}, case.inputs(rounds), clock)
        share = Spread.of([a / b for a, b in zip(times["swap"], times["step"], strict=True)])
        figures |= share.named(f"share/check-out-and-commit/{case.name}")
        figures[f"parameters/{case.name}"] = len(space)
    return figures


def style_cost(sizes: Iterable[str], rounds: int, clock: Clock) -> Figures:
    """Return the style's time by image size over that of the smallest, also at half scale."""
    exact, half = StyleEncoder(statistic="mean_var"), StyleEncoder(statistic="mean_var", size=0.5)
    seconds, figures = {}, {}
    for size in sizes:
        inputs = Case("tent", "segformer-b0", size).inputs(rounds + 1)
        times = interleave({"exact": exact, "half": half}, inputs, clock)
        seconds[size] = Spread.of(times["exact"][1:]).median
        figures[f"ratio/style/half-over-exact/{size}"] = float(
            f"{Spread.of(times['half'][1:]).median / seconds[size]:.3g}"
        )
    first = next(iter(seconds))
    for size, value in seconds.items():
        figures[f"growth/style/{size}-over-{first}"] = float(f"{value / seconds[first]:.3g}")
    return figures


def bytes_per_expert(net: str) -> Figures:
    """Return the bytes of an expert: its parameters and its optimizer's moments."""
    case = Case("tent", net, "64x128")
    pipeline = case.base()
    method = pipeline.method
    method.space.zero_grad()
    method.optimizer.step()
    moments = method.domain_state()["optimizer"].values()
    count = sum(t.numel() * t.element_size() for t in moments if isinstance(t, torch.Tensor))
    count += method.space.values.numel() * method.space.values.element_size()
    needed = 3 * method.space.values.numel() * 4
    return {
        f"bytes/expert/{net}/affine": count,
        f"ratio/bytes/expert/{net}/affine": float(f"{count / needed:.4g}"),
    }


def calibration_cost(size: str, images: int, clock: Clock) -> Figures:
    """Return the seconds of the calibration per source image, which are those of its style."""
    encoder = StyleEncoder(statistic="mean_var")
    inputs = Case("tent", "segformer-b0", size).inputs(images)
    times = interleave({"style": encoder}, inputs, clock)["style"]
    return Spread.of(times).named(f"seconds/calibration-per-image/{size}")
