"""The paper's figures, from results files: one function each, all give a matplotlib figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..runs.style_sample import Styles
from .figure_data import assignment
from .sensitivity import Sweep
from .tables import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = "osD^vP*X"


def assignment_figure(runs: Mapping[str, Results]) -> Figure:
    """Model assignments per domain: each row tells where a domain's images went; it sums to 1."""
    figure, axes = _axes(len(runs), width=4.6, height=3.4)
    for axis, (name, results) in zip(axes, runs.items(), strict=True):
        found = assignment(results["routes"])
        drawn = axis.imshow(found.shares, vmin=0, vmax=1, cmap="viridis", aspect="auto")
        axis.set_xticks(range(len(found.experts)), found.experts)
        axis.set_yticks(range(len(found.domains)), found.domains)
        axis.set(xlabel="expert", title=name)
        for (row, column), share in np.ndenumerate(found.shares):
            if share >= 0.005:
                shade = "black" if share > 0.6 else "white"
                axis.text(
                    column, row, f"{share:.2f}", ha="center", va="center", color=shade, fontsize=7
                )
    figure.colorbar(drawn, ax=list(axes), fraction=0.05)
    return figure


def style_figure(runs: Mapping[str, tuple[Results, Styles]], projection: str = "tsne") -> Figure:
    """t-SNE (or PCA) of styles, with the trajectories of the experts' means."""
    from .style_map import style_map  # half a second of scikit-learn

    figure, axes = _axes(len(runs), width=5.0, height=4.4)
    for axis, (name, (results, styles)) in zip(axes, runs.items(), strict=True):
        found = style_map(results, styles, projection)
        for i, domain in enumerate(dict.fromkeys(found.domains)):
            mine = [j for j, other in enumerate(found.domains) if other == domain]
            points = found.points[mine]
            axis.scatter(points[:, 0], points[:, 1], s=9, color=f"C{i}", alpha=0.5, label=domain)
        for expert, path in found.paths.items():
            _, x, y = zip(*path, strict=True)
            axis.plot(x, y, color="black", lw=1, marker=_MARKERS[expert % len(_MARKERS)], ms=4)
            axis.annotate(str(expert), (x[-1], y[-1]), (3, 3), textcoords="offset points")
        axis.set(xticks=[], yticks=[], title=name)
        axis.legend(fontsize=7)
    return figure


def domain_count_figure(runs: Mapping[str, Results]) -> Figure:
    """Detected domains over the stream: within the first round (left), and by round (right)."""
    figure, (left, right) = _axes(2, width=4.2, height=3.2)
    for i, (name, results) in enumerate(runs.items()):
        routes = results["routes"]
        first = [route["k"] for route in routes if route["round"] == routes[0]["round"]]
        left.plot(range(1, len(first) + 1), first, color=f"C{i}", label=name)
        last = {route["round"]: route["k"] for route in routes}
        right.plot(list(last), list(last.values()), color=f"C{i}", marker="o", ms=3, label=name)
    left.set(xlabel="image or batch of the first round", ylabel="experts K")
    right.set(xlabel="round", ylabel="experts K at its end")
    for axis in (left, right):
        axis.set_ylim(bottom=0)  # a constant count is no fraction
        axis.yaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
    right.xaxis.get_major_locator().set_params(integer=True)
    left.legend(fontsize=7)
    return figure


def memory_figure(results: Results, sizes: Sequence[int]) -> Figure:
    """FIFO against reservoir sampling: which domains a memory of M styles holds over time.

    A memory knows nothing of domains, so the order of the run's stream is all it depends on.
    """
    from .memory_replay import memory_balance  # seconds of torch

    names = {"fifo": "FIFO", "reservoir": "reservoir sampling"}
    figure, axes = _axes(2 * len(sizes), width=3.6, height=2.6, columns=2)
    places = [(size, kind) for size in sizes for kind in names]
    for axis, (size, kind) in zip(axes, places, strict=True):
        balance = memory_balance(results["routes"], kind, size)
        times = range(1, len(balance.shares[0]) + 1)
        axis.stackplot(times, balance.shares, labels=balance.domains, alpha=0.85)
        axis.set(title=f"{names[kind]}, M = {size}", ylim=(0, 1), xlim=(1, len(times)))
    for axis in axes[-2:]:
        axis.set_xlabel("image or batch")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), fontsize=8)
    return figure


def sensitivity_figure(sweep: Sweep) -> Figure:
    """The score at the last visit and over all visits, and the experts, by an option's value."""
    figure, (left, right) = _axes(2, width=4.0, height=3.0)
    # By their order: values such as 0.5, 0.9, 0.999 would lie on each other.
    places = range(len(sweep.values))
    for label, points in (("mean of all visits", sweep.mean), ("last visit", sweep.last)):
        left.errorbar(
            places,
            [point.mean for point in points],
            [point.deviation or 0 for point in points],
            marker="o",
            ms=4,
            capsize=3,
            label=label,
        )
    right.errorbar(
        places,
        [point.mean for point in sweep.k],
        [point.deviation or 0 for point in sweep.k],
        color="C2",
        marker="o",
        ms=4,
        capsize=3,
    )
    left.set_ylabel(f"mean {sweep.metric} (%)")
    right.set_ylabel("experts K")
    left.legend(fontsize=7)
    for axis in (left, right):
        axis.set_xticks(places, [str(value) for value in sweep.values])
        axis.set_xlabel(sweep.title)
        axis.grid(alpha=0.3)
    return figure


def _axes(count: int, width: float, height: float, columns: int = 3) -> tuple:
    """A figure and its axes, in rows of a few."""
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flat
    for axis in axes[count:]:
        axis.set_axis_off()
    return figure, axes[:count]
