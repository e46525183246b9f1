"""Curves over the visits: mean over the seeds, with a band of one deviation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..io.files import write_figure
from .summary import Group


def plot_curves(panels: Mapping[str, Mapping[str, Group]], path: Path) -> None:
    """One panel by its title, in it one curve by its label: the mean over the domains by visit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(panels), 3.6), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, groups) in zip(axes, panels.items(), strict=True):
        for i, (label, group) in enumerate(groups.items()):
            scores = group.scores["mean"]
            means = [score.mean for score in scores]
            visits = range(1, len(scores) + 1)
            axis.plot(visits, means, "--" if i == 0 else "-", color=f"C{i}", label=label)
            low = [score.mean - (score.deviation or 0.0) for score in scores]
            high = [score.mean + (score.deviation or 0.0) for score in scores]
            axis.fill_between(visits, low, high, color=f"C{i}", alpha=0.1, lw=0)
        axis.set(title=title, xlabel="visit", ylabel=f"mean {group.metric} (%)")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    write_figure(path, figure, dpi=130)
