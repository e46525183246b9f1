"""The common style of a page's charts: lines, markers, legends and axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import plotly.graph_objects as go

from ..colors import RUN_COLORS, nth_color

DASHES = {"solid": "", "dash": "6 4", "dot": "2 3", "dashdot": "7 3 2 3", "longdash": "10 6"}
"""Dashes in SVG by Plotly's names."""
SYMBOLS = {
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "square": "M-3.5-3.5h7v7h-7z",
    "diamond": "M0-5L5 0 0 5-5 0z",
    "triangle-up": "M0-4.5L4.5 3.5H-4.5z",
    "cross": "M-1.5-4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
    "x": "M-4-2L-2-4 0-2 2-4 4-2 2 0 4 2 2 4 0 2-2 4-4 2-2 0z",
    "triangle-down": "M0 4.5L4.5-3.5H-4.5z",
    "star": "M0-5L1.2-1.6 4.8-1.5 1.9.6 2.9 4 0 1.9-2.9 4-1.9.6-4.8-1.5-1.2-1.6z",
}
"""Outlines of markers in SVG by Plotly's names."""


@dataclass(frozen=True)
class Chart:
    """A figure on the page. The page sets the colors of text and grid."""

    title: str
    figure: go.Figure
    caption: str = ""
    wide: bool = False
    """Whether it uses the full width of the page."""

    @property
    def legend(self) -> list[Key]:
        """Entries of all named traces, drawn by the page because Plotly's legend is too wide."""
        return [_key(i, trace) for i, trace in enumerate(self.figure.data) if trace.name]


class Key(NamedTuple):
    """One entry of a chart's legend."""

    trace: int
    """Index of the trace in the figure."""
    name: str
    color: str
    dash: str | None = None
    """Dashes of the line in SVG; None without a line."""
    outline: str | None = None
    """Outline of the marker in SVG; None for a filled box."""


def _key(index: int, trace: Any) -> Key:
    if trace.type != "scatter":
        return Key(index, trace.name, trace.marker.color)
    symbol = trace.marker.symbol
    outline = SYMBOLS[symbol] if isinstance(symbol, str) else None  # a list has a marker per expert
    dash = DASHES[trace.line.dash or "solid"] if "lines" in trace.mode else None
    return Key(index, trace.name, trace.marker.color, dash, outline)


def symbol_of(index: int) -> str:
    """Return the marker of the n-th run or expert."""
    return list(SYMBOLS)[index % len(SYMBOLS)]


def run_line(index: int) -> dict[str, Any]:
    """Return line and marker of the n-th run.

    Each line is thinner than the one before, with other dashes and another marker, because later
    lines are drawn over earlier ones.
    """
    color, dash = nth_color(RUN_COLORS, index), list(DASHES)[index % len(DASHES)]
    return {
        "line": dict(color=color, dash=dash, width=max(3 - 0.2 * index, 2)),
        "marker": dict(color=color, symbol=symbol_of(index), size=max(12 - index, 7)),
    }


def draw(
    traces: Sequence[Any], x: str = "", y: str = "", height: int = 320, **layout: Any
) -> go.Figure:
    """Return a figure in the style of the page; ``x`` and ``y`` are the titles of the axes."""
    figure = go.Figure(list(traces))
    figure.update_layout(
        template="none",
        height=height,
        margin=dict(l=8, r=8, t=8, b=8),
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font=dict(family="system-ui, sans-serif", size=12),
        showlegend=False,
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
    height: int,
    inside: str | None = None,
    top: float = 1.0,
    **more: Any,
) -> go.Figure:
    """Return a heatmap from 0 to ``top``; ``hover`` and ``inside`` are templates for its texts."""
    style: dict[str, Any] = dict(xgap=1, ygap=1, colorbar=dict(thickness=10, outlinewidth=0))
    # The page replaces these colors by those of its theme.
    style |= dict(colorscale="Blues", hovertemplate=hover + "<extra></extra>", texttemplate=inside)
    return draw([go.Heatmap(z=z, x=x, y=y, zmin=0, zmax=top, **style, **more)], height=height)
