"""What all charts of a page have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import plotly.graph_objects as go

RUN_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
"""Of runs: Okabe and Ito's, which the color-blind distinguish, on white and on black."""
DOMAIN_COLORS = (
    "#88ccee",
    "#cc6677",
    "#ddcc77",
    "#117733",
    "#aa4499",
    "#44aa99",
    "#999933",
    "#6699cc",
)
"""Of domains: Tol's muted ones, none of which is the color of a run."""
STAGE_COLORS = ("#3b6ea8", "#8fb8de", "#c9a227", "#7a5195", "#a3a3a3")
"""Of anything else."""
ALARM = "#c8553d"
DASHES = {"solid": "", "dash": "6 4", "dot": "2 3", "dashdot": "7 3 2 3", "longdash": "10 6"}
"""Plotly's names, and the same of SVG."""
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
"""Plotly's names of markers, and their outlines in SVG."""


@dataclass(frozen=True)
class Chart:
    """A figure on the page.

    Args:
        title: Its heading.
        figure: What Plotly draws; colors of text and grid are the page's.
        note: How to read it.
        wide: Whether it needs the whole width, on a screen that has one.
    """

    title: str
    figure: go.Figure
    note: str = ""
    wide: bool = False

    @property
    def legend(self) -> list[Key]:
        """What its colors, dashes and markers stand for."""
        return legend_of(self.figure)


class Key(NamedTuple):
    """One entry of a chart's legend.

    Args:
        trace: Index of what it explains among the figure's traces.
        name: What it is called.
        color: Its color.
        dash: Dashes of its line in SVG; None without a line.
        outline: Outline of its marker in SVG; None stands for a filled box.
    """

    trace: int
    name: str
    color: str
    dash: str | None = None
    outline: str | None = None


def colour(index: int) -> str:
    """Return the color of the n-th part of a chart that is neither a run nor a domain."""
    return STAGE_COLORS[index % len(STAGE_COLORS)]


def domain_color(index: int) -> str:
    """Return the color of the n-th domain."""
    return DOMAIN_COLORS[index % len(DOMAIN_COLORS)]


def run_line(index: int) -> dict[str, Any]:
    """Return line and marker of the n-th run.

    Each is thinner than the one before, which it may cover, and dashed otherwise.
    """
    color = RUN_COLORS[index % len(RUN_COLORS)]
    return {
        "line": dict(
            color=color, dash=list(DASHES)[index % len(DASHES)], width=max(3 - 0.2 * index, 2)
        ),
        "marker": dict(
            color=color, symbol=list(SYMBOLS)[index % len(SYMBOLS)], size=max(12 - index, 7)
        ),
    }


def legend_of(figure: go.Figure) -> list[Key]:
    """Return the legend of a figure: the page writes it, since Plotly's does not fit a phone."""
    keys = []
    for index, trace in enumerate(figure.data):
        if trace.name is None or trace.showlegend is False:
            continue
        if trace.type != "scatter":
            keys.append(Key(index, trace.name, trace.marker.color))
            continue
        lined = "lines" in trace.mode
        symbol = trace.marker.symbol
        outline = SYMBOLS[symbol] if isinstance(symbol, str) else None  # several stand for experts
        dash = DASHES[trace.line.dash or "solid"] if lined else None
        keys.append(Key(index, trace.name, trace.marker.color, dash, outline))
    return keys


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
        colorscale="Blues",  # on black the page reverses it
        xgap=1,
        ygap=1,
        colorbar=dict(thickness=10, outlinewidth=0),
        **more,
    )
