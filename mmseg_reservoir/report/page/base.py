"""What all charts of a page have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

COLOURS = (
    "#4c78a8",
    "#f58518",
    "#54a24b",
    "#e45756",
    "#b279a2",
    "#72b7b2",
    "#eeca3b",
    "#9d755d",
    "#ff9da6",
    "#bab0ac",
)
"""Of runs, domains and experts: told apart on white and on black."""


@dataclass(frozen=True)
class Chart:
    """A figure on the page.

    Args:
        title: Its heading.
        figure: What Plotly draws; colours of text and grid are the page's.
        note: How to read it.
        wide: Whether it needs the whole width, on a screen that has one.
    """

    title: str
    figure: go.Figure
    note: str = ""
    wide: bool = False


def colour(index: int) -> str:
    """The colour of the n-th of anything."""
    return COLOURS[index % len(COLOURS)]


def draw(
    traces: Sequence[Any], x: str = "", y: str = "", height: int = 320, **layout: Any
) -> go.Figure:
    """A figure in the style of the page: named axes, nothing else around."""
    figure = go.Figure(list(traces))
    figure.update_layout(
        template="none",
        height=height,
        margin=dict(l=8, r=8, t=8, b=8),
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font=dict(family="system-ui, sans-serif", size=12),
        legend=dict(orientation="h", y=1.02, yanchor="bottom", x=0),
        hovermode="closest",
    )
    figure.update_xaxes(title=x, automargin=True, zeroline=False, fixedrange=True)
    figure.update_yaxes(title=y, automargin=True, zeroline=False, fixedrange=True)
    return figure.update_layout(**layout)


def heatmap(
    z: Sequence[Sequence[float | None]],
    x: Sequence[str],
    y: Sequence[str],
    hover: str,
    inside: str | None = None,
    **more: Any,
) -> go.Heatmap:
    """A heatmap with gaps between its cells; ``hover`` and ``inside`` are Plotly's templates."""
    return go.Heatmap(
        z=z,
        x=x,
        y=y,
        hovertemplate=hover + "<extra></extra>",
        texttemplate=inside,
        colorscale="Viridis",
        xgap=1,
        ygap=1,
        colorbar=dict(thickness=10, outlinewidth=0),
        **more,
    )
