"""Charts of scores: by visit, by class, and on sets beside the stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from ..figure_data import class_scores
from ..shown_run import ShownRun
from ..tables import by_domain, scores_by_domain
from .base import Chart, draw, heatmap, run_line


def score_charts(runs: Sequence[ShownRun]) -> list[Chart]:
    """One chart of the mean over the domains, and one of every domain; a line per run."""
    scores = {run.name: scores_by_domain(run.results) for run in runs}
    domains = list(dict.fromkeys(domain for run in runs for domain in run.domains))
    metric = runs[0].metric
    charts = [_lines("Mean over the domains", scores, "mean", metric, wide=True)]
    if len(domains) > 1:
        charts += [_lines(domain, scores, domain, metric) for domain in domains]
    return charts


def also_charts(runs: Sequence[ShownRun]) -> list[Chart]:
    """One chart of every labelled set beside the stream: its score after each round."""
    scores = {run.name: by_domain(run.results.get("also") or []) for run in runs}
    names = list(dict.fromkeys(name for rows in scores.values() for name in rows))
    note = "Tested with frozen experts after every round; no part of the stream."
    metric = runs[0].metric
    return [
        _lines(name, scores, name, metric, x="after round", note=note, wide=len(names) == 1)
        for name in names
    ]


def _lines(
    title: str,
    scores: Mapping[str, Mapping[str, Sequence[float]]],
    domain: str,
    metric: str,
    x: str = "visit",
    note: str = "",
    wide: bool = False,
) -> Chart:
    hover = f"%{{fullData.name}}<br>{x} %{{x}}: %{{y:.2f}}<extra></extra>"
    traces = [
        go.Scatter(
            x=list(range(1, len(rows[domain]) + 1)),
            y=list(rows[domain]),
            name=name,
            mode="lines+markers",
            **run_line(i),
            hovertemplate=hover,
        )
        for i, (name, rows) in enumerate(scores.items())
        if domain in rows
    ]
    figure = draw(traces, x, f"{metric} (%)", height=360 if wide else 240)
    figure.update_xaxes(dtick=1 if max(len(t.x) for t in traces) <= 20 else None)
    return Chart(title, figure, note, wide)


def class_charts(runs: Sequence[ShownRun]) -> list[Chart]:
    """IoU of every class and domain in a run's last round, as a heatmap; none of classifiers."""
    charts = []
    for run in runs:
        last = run.results["visits"][-1]["round"]
        scores = class_scores(run.results, last)
        if not scores:
            continue
        domains, classes = run.domains, list(scores)[::-1]  # the first at the top
        rows = [[scores[name].get(domain) for domain in domains] for name in classes]
        hover = "%{y}, %{x}: IoU %{z:.1f}"
        cells = heatmap(rows, domains, classes, hover, "%{z:.0f}", zmin=0, zmax=100)
        figure = draw([cells], height=60 + 22 * len(classes))
        charts.append(Chart(run.name, figure, f"IoU (%) in round {last}."))
    return charts
