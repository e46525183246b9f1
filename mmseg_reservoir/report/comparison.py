"""Several runs of one stream beside each other: a table and a plot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..io.files import write_figure
from ..runs.image_times import image_times, milliseconds_text
from .tables import Results, make_table, metric_of, routing_purity, score_cells, scores_by_domain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def comparison_table(runs: Mapping[str, Results]) -> str:
    """One block per domain, one row per run, one column per visit."""
    scores = {name: scores_by_domain(results) for name, results in runs.items()}
    domains = list(next(iter(scores.values())))
    rounds = max(len(rows["mean"]) for rows in scores.values())
    metric = metric_of(next(iter(runs.values()))["visits"])
    lines: list[list[str] | None] = []
    for domain in domains:
        for i, (name, rows) in enumerate(scores.items()):
            lines.append([domain if i == 0 else "", name, *score_cells(rows[domain], rounds)])
        lines.append(None)
    return make_table([metric, "visit", *range(1, rounds + 1), "mean"], lines, text_columns=2)


def last_visit_table(runs: Mapping[str, Results]) -> str:
    """Return one row per run: the scores of the last visit, experts, routing purity and cost.

    The cost is the median time per image, with quartiles.
    """
    scores = {name: scores_by_domain(results) for name, results in runs.items()}
    domains = list(next(iter(scores.values())))
    rounds = max(len(rows["mean"]) for rows in scores.values())
    metric = metric_of(next(iter(runs.values()))["visits"])
    routing = ["experts K", "routing purity", "updates", "ms per image"]
    header = [f"{metric} at visit {rounds}", *domains, *routing]
    rows = []
    for name, results in runs.items():
        cells = [f"{scores[name][domain][-1]:.2f}" for domain in domains]
        routes = results["routes"]
        purity = f"{routing_purity(routes):.3f}" if results["reservoir"] else "-"
        cost = milliseconds_text(image_times(routes))
        updates = results["updates"]["updates"]
        rows.append([name, *cells, routes[-1]["k"], purity, updates, cost])
    return make_table(header, rows)


def plot_comparison(runs: Mapping[str, Results], path: Path) -> None:
    """Save the figure of `comparison_figure`."""
    write_figure(path, comparison_figure(runs), dpi=130)


def comparison_figure(runs: Mapping[str, Results]) -> Figure:
    """The score by visit for every domain, and below it which expert each image was sent to."""
    from matplotlib.figure import Figure

    scores = {name: scores_by_domain(results) for name, results in runs.items()}
    domains = list(next(iter(scores.values())))
    routed = {name: results for name, results in runs.items() if results["reservoir"]}
    heights = [3.2] + [0.55] * len(routed)
    figure = Figure(figsize=(2.9 * len(domains), 1.2 + sum(heights)), layout="constrained")
    top, *strips = figure.subfigures(len(heights), height_ratios=heights, squeeze=False)[:, 0]
    axes = top.subplots(1, len(domains))
    for axis, domain in zip(axes, domains, strict=True):
        for i, (name, rows) in enumerate(scores.items()):
            visits = range(1, len(rows[domain]) + 1)
            style = "--" if i == 0 else "-"
            axis.plot(visits, rows[domain], style, color=f"C{i}", label=name, marker="o", ms=3)
        axis.set_title(domain)
        axis.set_xlabel("visit")
        axis.grid(alpha=0.3)
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_ylabel(f"{metric_of(next(iter(runs.values()))['visits'])} (%)")
    top.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(runs))
    for strip, (name, results) in zip(strips, routed.items(), strict=True):
        _plot_routes(strip.subplots(), name, results)
    return figure


def _plot_routes(axis: Any, name: str, results: Results) -> None:
    """A strip with one column per image: its colour is the expert, ticks are the visits."""
    routes = results["routes"]
    experts = [route["expert"] for route in routes]
    axis.imshow([experts], aspect="auto", cmap="tab20", vmin=0, vmax=19, interpolation="nearest")
    starts = [
        i for i, route in enumerate(routes) if i == 0 or route["domain"] != routes[i - 1]["domain"]
    ]
    ends = [*starts[1:], len(routes)]
    middles = [(a + b) / 2 - 0.5 for a, b in zip(starts, ends, strict=True)]
    axis.set_xticks(middles, [routes[i]["domain"][0] for i in starts], fontsize=7)
    axis.tick_params(length=0)
    for start in starts[1:]:
        axis.axvline(start - 0.5, color="white", lw=1.2)
    axis.set_yticks([0], [f"expert\n({name})"], fontsize=7)
