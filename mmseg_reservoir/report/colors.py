"""The colors of all charts."""

RUN_COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"]
"""Okabe and Ito's colors, which color-blind readers can distinguish on white and on black."""
DOMAIN_COLORS = [
    "#88ccee",
    "#cc6677",
    "#ddcc77",
    "#117733",
    "#aa4499",
    "#44aa99",
    "#999933",
    "#6699cc",
]
"""Tol's muted colors, which differ from those of runs."""
OTHER_COLORS = ["#3b6ea8", "#8fb8de", "#c9a227", "#7a5195", "#a3a3a3"]
"""Colors of anything but runs and domains, such as the stages of a step."""
PRESET_COLORS = {"plain": "#d55e00", "published": "#0072b2", "robust": "#009e73"}
ALARM = "#c8553d"
ERROR_RGB = (215, 25, 28)
"""Color of a wrong pixel."""
GRAY = "#808080"
"""Visible on white and on black."""


def nth_color(colors: list[str], index: int) -> str:
    """Return the n-th color; the colors repeat."""
    return colors[index % len(colors)]
