"""Charts of styles: every point is one batch, every path the mean of an expert."""

from __future__ import annotations

import plotly.graph_objects as go

from ..shown_run import ShownRun
from ..style_map import FEWEST, StyleMap, style_map
from .base import Chart, colour, draw

_SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "triangle-down", "star")
_NOTE = (
    "Colours are domains, symbols experts. A line is the way that the mean of an expert's styles "
    "took from round to round; its number stands at the end."
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
                    color=colour(i),
                    size=6,
                    opacity=0.65,
                    symbol=[_SYMBOLS[found.experts[j] % len(_SYMBOLS)] for j in mine],
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
                # Grey is seen on white and on black.
                line=dict(color="#808080", width=1.5),
                marker=dict(color="#808080", size=4),
                showlegend=False,
                hovertemplate=f"mean of expert {expert} after round %{{customdata}}<extra></extra>",
            )
        )
    figure = draw(traces, height=420)
    figure.update_xaxes(showticklabels=False)
    figure.update_yaxes(showticklabels=False)
    return figure
