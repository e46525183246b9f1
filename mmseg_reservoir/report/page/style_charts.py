"""Charts of styles: every point is one batch, every path the mean of an expert."""

from __future__ import annotations

import plotly.graph_objects as go

from ..shown_run import ShownRun
from ..style_map import FEWEST, StyleMap, style_map
from .base import SYMBOLS, Chart, domain_color, draw

_GRAY = "#808080"  # is seen on white and on black
_NOTE = (
    "Colors are domains, markers are experts. A line follows the mean of an expert's styles from "
    "round to round; the expert's number is at its end."
)


def style_charts(run: ShownRun) -> list[Chart]:
    """PCA and t-SNE of the run's styles; nothing if too few were kept."""
    if run.styles is None or len(run.styles.routes) < FEWEST:
        return []
    maps = {"PCA of styles": "pca", "t-SNE of styles": "tsne"}
    return [
        Chart(title, _figure(style_map(run.results, run.styles, projection)), _NOTE)
        for title, projection in maps.items()
    ]


def _symbol(expert: int) -> str:
    return list(SYMBOLS)[expert % len(SYMBOLS)]


def _figure(found: StyleMap) -> go.Figure:
    domains = list(dict.fromkeys(found.domains))
    traces = []
    for i, domain in enumerate(domains):
        mine = [j for j, other in enumerate(found.domains) if other == domain]
        traces.append(
            go.Scatter(
                x=found.points[mine, 0].round(3).tolist(),
                y=found.points[mine, 1].round(3).tolist(),
                name=domain,
                mode="markers",
                marker=dict(
                    color=domain_color(i),
                    size=8,
                    opacity=0.8,
                    line=dict(color=_GRAY, width=0.5),
                    symbol=[_symbol(found.experts[j]) for j in mine],
                ),
                customdata=[[found.experts[j], found.rounds[j]] for j in mine],
                hovertemplate=(
                    f"{domain}, round %{{customdata[1]}}: expert %{{customdata[0]}}<extra></extra>"
                ),
            )
        )
    for expert, path in found.paths.items():
        rounds, x, y = zip(*path, strict=True)
        traces.append(
            go.Scatter(
                x=x,
                y=y,
                mode="lines+markers+text",
                name=f"expert {expert}",
                text=[""] * (len(path) - 1) + [str(expert)],
                textposition="top center",
                customdata=rounds,
                line=dict(color=_GRAY, width=1.5),
                marker=dict(color=_GRAY, size=5, symbol=_symbol(expert)),
                hovertemplate=f"mean of expert {expert} after round %{{customdata}}<extra></extra>",
            )
        )
    figure = draw(traces, height=420)
    figure.update_xaxes(showticklabels=False)
    figure.update_yaxes(showticklabels=False)
    return figure
