"""Charts as files, drawn with matplotlib: score curves, routing and the figures of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..io.files import write_figure
from ..runs.reader import Results
from ..runs.style_sample import Styles
from .colors import DOMAIN_COLORS, OTHER_COLORS, PRESET_COLORS, RUN_COLORS, nth_color
from .routes import Projection, assignment, memory_balance, style_map
from .scores import metric_of, scores_by_domain
from .summary import Statistic, Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRESET_SUFFIXES = {" + ReservoirTTA": "published", " + robust": "robust"}
"""Preset of a run with a reservoir, by the suffix of its name."""
_MARKERS = "osD^vP*X"
_MEMORIES = {"fifo": "FIFO", "reservoir": "reservoir sampling"}

Curves = Mapping[str, Sequence[Statistic]]
"""Scores by visit, for each label."""


def draw_curves(
    axis: Any, curves: Curves, title: str, colors: Mapping[str, str] | None = None, **more: Any
) -> None:
    """Draw scores by visit, with a band of one standard deviation if there are several seeds.

    The first curve is dashed if there are several. ``more`` are options of matplotlib's ``plot``.
    """
    for i, (label, scores) in enumerate(curves.items()):
        color = colors[label] if colors else nth_color(RUN_COLORS, i)
        visits = range(1, len(scores) + 1)
        dashes = "--" if i == 0 and len(curves) > 1 else "-"
        axis.plot(visits, [s.mean for s in scores], dashes, color=color, label=label, **more)
        if any(score.deviation for score in scores):
            bands = [[s.mean + sign * (s.deviation or 0.0) for s in scores] for sign in (-1, 1)]
            axis.fill_between(visits, *bands, color=color, alpha=0.1, lw=0)
    axis.set_title(title, fontsize=10)
    axis.grid(alpha=0.3)
    axis.xaxis.get_major_locator().set_params(integer=True)


def plot_curves(panels: Mapping[str, Curves], path: Path, metric: str) -> None:
    """Save a figure with one panel of score curves per title."""
    figure, axes = _axes(len(panels), width=4.6, height=3.6, columns=len(panels))
    for axis, (title, curves) in zip(axes, panels.items(), strict=True):
        draw_curves(axis, curves, title)
        axis.set(xlabel="visit", ylabel=f"mean {metric} (%)")
        axis.legend(fontsize=7)
    write_figure(path, figure, dpi=130)


def plot_comparison(runs: Mapping[str, Results], path: Path) -> None:
    """Save a figure of the score by visit for every domain, and of the expert of every image."""
    from matplotlib.figure import Figure

    scores = {name: scores_by_domain(results) for name, results in runs.items()}
    domains = list(next(iter(scores.values())))
    routed = {name: results for name, results in runs.items() if results["reservoir"]}
    heights = [3.2] + [0.55] * len(routed)
    figure = Figure(figsize=(2.9 * len(domains), 1.2 + sum(heights)), layout="constrained")
    top, *strips = figure.subfigures(len(heights), height_ratios=heights, squeeze=False)[:, 0]
    axes = top.subplots(1, len(domains))
    for axis, domain in zip(axes, domains, strict=True):
        curves = {name: _single(rows[domain]) for name, rows in scores.items()}
        draw_curves(axis, curves, domain, marker="o", ms=3)
        axis.set_xlabel("visit")
    axes[0].set_ylabel(f"{metric_of(next(iter(runs.values()))['visits'])} (%)")
    top.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(runs))
    for strip, (name, results) in zip(strips, routed.items(), strict=True):
        _draw_routes(strip.subplots(), name, results)
    write_figure(path, figure, dpi=130)


def _single(scores: Sequence[float]) -> list[Statistic]:
    return [Statistic(score, None) for score in scores]


def _draw_routes(axis: Any, name: str, results: Results) -> None:
    """Draw one column per image in the color of its expert, with a tick for each visit."""
    experts = [route["expert"] for route in results["routes"]]
    axis.imshow([experts], aspect="auto", cmap="tab20", vmin=0, vmax=19, interpolation="nearest")
    start, middles, initials = 0, [], []
    for domain, members in groupby(route["domain"] for route in results["routes"]):
        end = start + len(list(members))
        middles.append((start + end) / 2 - 0.5)
        initials.append(domain[0])
        if start:
            axis.axvline(start - 0.5, color="white", lw=1.2)
        start = end
    axis.set_xticks(middles, initials, fontsize=7)
    axis.tick_params(length=0)
    axis.set_yticks([0], [f"expert\n({name})"], fontsize=7)


def plot_errors(runs: Mapping[str, Results], path: Path) -> None:
    """Save a figure of the error by visit: one axis per method, without and with reservoirs."""
    plain = [name for name in runs if not name.endswith(tuple(PRESET_SUFFIXES))]
    columns = min(5, len(plain))
    figure, axes = _axes(len(plain), 2.6, 2.2, columns, sharex=True, sharey=True)
    for axis in axes[-columns:]:  # the lowest axis of each column
        axis.tick_params(labelbottom=True)
    for axis, name in zip(axes, plain, strict=True):
        # With a reservoir, the method align always uses the preset robust.
        own = "robust" if runs[name]["reservoir"] else "plain"
        curves = {
            label: _single(scores_by_domain(runs[name + suffix])["mean"])
            for suffix, label in ({"": own} | PRESET_SUFFIXES).items()
            if name + suffix in runs
        }
        draw_curves(axis, curves, name, PRESET_COLORS)
    figure.supxlabel("visit", fontsize=9)
    figure.supylabel("error (%)", fontsize=9)
    lines = {line.get_label(): line for axis in axes for line in axis.get_lines()}
    figure.legend(lines.values(), lines, loc="outside upper right", ncols=3, fontsize=8)
    write_figure(path, figure, dpi=130)


def assignment_figure(runs: Mapping[str, Results]) -> Figure:
    """Return a figure of the share of each domain's images by expert; each row sums to 1."""
    figure, axes = _axes(len(runs), width=4.6, height=3.4)
    for axis, (name, results) in zip(axes, runs.items(), strict=True):
        counts = assignment(results["routes"])
        image = axis.imshow(counts.shares, vmin=0, vmax=1, cmap="viridis", aspect="auto")
        axis.set_xticks(range(len(counts.experts)), counts.experts)
        axis.set_yticks(range(len(counts.domains)), counts.domains)
        axis.set(xlabel="expert", title=name)
        for (row, column), share in np.ndenumerate(counts.shares):
            if share >= 0.005:
                style = {"color": "black" if share > 0.6 else "white", "fontsize": 7}
                axis.text(column, row, f"{share:.2f}", ha="center", va="center", **style)
    figure.colorbar(image, ax=axes, fraction=0.05)
    return figure


def style_figure(
    runs: Mapping[str, tuple[Results, Styles]], projection: Projection = "tsne"
) -> Figure:
    """Return a figure of t-SNE (or PCA) of the styles, with the paths of the experts' means."""
    figure, axes = _axes(len(runs), width=5.0, height=4.4)
    for axis, (name, (results, styles)) in zip(axes, runs.items(), strict=True):
        plane = style_map(results, styles, projection)
        for i, (domain, indices) in enumerate(plane.points_by_domain().items()):
            x, y = plane.points[indices].T
            axis.scatter(x, y, s=9, color=nth_color(DOMAIN_COLORS, i), alpha=0.7, label=domain)
        for expert, path in plane.paths.items():
            _, x, y = zip(*path, strict=True)
            axis.plot(x, y, color="black", lw=1, marker=_MARKERS[expert % len(_MARKERS)], ms=4)
            axis.annotate(str(expert), (x[-1], y[-1]), (3, 3), textcoords="offset points")
        axis.set(xticks=[], yticks=[], title=name)
        axis.legend(fontsize=7)
    return figure


def domain_count_figure(runs: Mapping[str, Results]) -> Figure:
    """Return a figure of the number of experts in the first round, and after each round."""
    figure, (left, right) = _axes(2, width=4.2, height=3.2)
    for i, (name, results) in enumerate(runs.items()):
        routes = results["routes"]
        first = [route["k"] for route in routes if route["round"] == routes[0]["round"]]
        left.plot(range(1, len(first) + 1), first, color=nth_color(RUN_COLORS, i), label=name)
        last = {route["round"]: route["k"] for route in routes}
        right.plot(
            [*last], [*last.values()], color=nth_color(RUN_COLORS, i), marker="o", ms=3, label=name
        )
    left.set(xlabel="image or batch of the first round", ylabel="experts K")
    right.set(xlabel="round", ylabel="experts K at its end")
    for axis in (left, right):
        axis.set_ylim(bottom=0)  # otherwise a constant count gets fractional ticks
        axis.yaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
    right.xaxis.get_major_locator().set_params(integer=True)
    left.legend(fontsize=7)
    return figure


def memory_figure(results: Results, sizes: Sequence[int]) -> Figure:
    """Return a figure of the domains in a memory of M styles: FIFO and reservoir sampling.

    These memories ignore domains, so the figure depends only on the order of the stream.
    """
    figure, axes = _axes(2 * len(sizes), width=3.6, height=2.6, columns=2)
    panels = [(size, kind) for size in sizes for kind in _MEMORIES]
    for axis, (size, kind) in zip(axes, panels, strict=True):
        domains, shares = memory_balance(results["routes"], kind, size)
        times = range(1, len(shares[0]) + 1)
        colors = [nth_color(DOMAIN_COLORS, i) for i in range(len(domains))]
        axis.stackplot(times, shares, labels=domains, colors=colors)
        axis.set(title=f"{_MEMORIES[kind]}, M = {size}", ylim=(0, 1), xlim=(1, len(times)))
    for axis in axes[-2:]:
        axis.set_xlabel("image or batch")
    keys, labels = axes[0].get_legend_handles_labels()
    figure.legend(keys, labels, loc="outside upper center", ncols=len(labels), fontsize=8)
    return figure


def sensitivity_figure(sweep: Sweep) -> Figure:
    """Return a figure of the score (left) and the number of experts (right) by an option."""
    figure, (left, right) = _axes(2, width=4.0, height=3.0)
    # Evenly spaced, because values such as 0.9 and 0.999 would overlap.
    places = range(len(sweep.values))
    curves = {"mean of all visits": sweep.mean, "last visit": sweep.last, "experts K": sweep.k}
    for i, (label, points) in enumerate(curves.items()):
        (right if points is sweep.k else left).errorbar(
            places,
            [point.mean for point in points],
            [point.deviation or 0 for point in points],
            color=nth_color(OTHER_COLORS, i),
            marker="o",
            ms=4,
            capsize=3,
            label=label,
        )
    left.set_ylabel(f"mean {sweep.metric} (%)")
    right.set_ylabel("experts K")
    left.legend(fontsize=7)
    for axis in (left, right):
        axis.set_xticks(places, [str(value) for value in sweep.values])
        axis.set_xlabel(sweep.title)
        axis.grid(alpha=0.3)
    return figure


def _axes(
    count: int, width: float, height: float, columns: int = 3, **shared: Any
) -> tuple[Figure, list[Any]]:
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for axis in axes[count:]:
        axis.set_axis_off()
    return figure, axes[:count]
