"""Many classifiers on one stream: a row each, and a plot of plain methods beside the reservoir."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..io.files import write_figure
from .tables import Results, make_table, routing_purity, scores_by_domain

VISITS = (1, 5, 10, 15, 20)
PLUG_INS_BY_NAME = {" + ReservoirTTA": "published", " + robust": "robust"}
"""How the name of a run with a reservoir ends, and its preset."""
_COLORS = {"plain": "C3", "published": "C0", "robust": "C2"}
COLLAPSE = 1.5
"""A run collapses if its last visit has so many times the error of its best one ..."""
COLLAPSE_POINTS = 5.0
"""... and at least so many percent points more."""


def error_table(runs: Mapping[str, Results], visits: Sequence[int] = VISITS) -> str:
    """One row per run: errors at some visits, their mean over all, experts, purity and time."""
    means = {name: scores_by_domain(results)["mean"] for name, results in runs.items()}
    length = max(map(len, means.values()))
    shown = [visit for visit in visits if visit <= length]
    header = ["error (%) at visit", *shown, "mean", "", "experts K", "purity", "CPU s"]
    rows = []
    for name, results in runs.items():
        row = means[name]
        cells = [f"{row[visit - 1]:.1f}" if visit <= len(row) else "" for visit in shown]
        rows.append(
            [
                name,
                *cells,
                f"{sum(row) / len(row):.1f}",
                "collapses" if collapsed(row) else "",
                results["routes"][-1]["k"],
                f"{routing_purity(results['routes']):.2f}" if results["reservoir"] else "-",
                f"{results['cpu_seconds']:.0f}",
            ]
        )
    return make_table(header, rows)


def collapsed(errors: Sequence[float]) -> bool:
    """Whether the errors by visit end far above their best."""
    best, last = min(errors), errors[-1]
    return last > COLLAPSE * best and last > best + COLLAPSE_POINTS


def plot_errors(runs: Mapping[str, Results], path: Path) -> None:
    """Error by visit; one axis per method, with its reservoir where there is one."""
    from matplotlib.figure import Figure

    plain = [name for name in runs if not name.endswith(tuple(PLUG_INS_BY_NAME))]
    columns = min(5, len(plain))
    rows = -(-len(plain) // columns)
    figure = Figure(figsize=(2.6 * columns, 2.2 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axis in axes.flat[len(plain) :]:
        axis.set_axis_off()
    for axis in axes.flat[len(plain) - columns : len(plain)]:  # nothing is drawn below them
        axis.tick_params(labelbottom=True)
    for axis, name in zip(axes.flat, plain, strict=False):
        # align is nothing without its reservoir, which is the robust one.
        own = "robust" if runs[name]["reservoir"] else "plain"
        for ending, label in ({"": own} | PLUG_INS_BY_NAME).items():
            if name + ending in runs:
                errors = scores_by_domain(runs[name + ending])["mean"]
                axis.plot(range(1, len(errors) + 1), errors, color=_COLORS[label], label=label)
        axis.set_title(name, fontsize=9)
        axis.grid(alpha=0.3)
    figure.supxlabel("visit", fontsize=9)
    figure.supylabel("error (%)", fontsize=9)
    handles = {line.get_label(): line for axis in axes.flat for line in axis.get_lines()}
    figure.legend(handles.values(), handles, loc="outside upper right", ncols=3, fontsize=8)
    write_figure(path, figure, dpi=130)
