"""Table and plot of ``speed.json``: written into a document, between two marks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from benchmarks.speed.split import STAGES
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.files import write_text
from mmseg_reservoir.report.tables import make_table

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
Figures = Mapping[str, float | str]


def update(document: Path, figures: Figures, plot: Path) -> None:
    """Write the tables between the marks of the document, and the plot."""
    text = document.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise ReservoirError(f"{document} has no lines {BEGIN} and {END} for the tables")
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    picture = f"![The same as bars]({plot.relative_to(document.parent).as_posix()})"
    parts = [before + BEGIN, tables(figures), picture, END + after]
    write_text(document, "\n\n".join(parts))
    draw(figures, plot)


def tables(figures: Figures) -> str:
    """Return all figures as Markdown."""
    facts = [name for name in figures if name.startswith("about/")]
    lines = [", ".join(f"{n.removeprefix('about/')}: {figures[n]}" for n in facts) + "."]
    parts = {
        "The step of a reservoir over that of its base (median, quartiles)": _ratio_table(figures),
        "Where the time goes, in percent of a base step": _split_table(figures),
        "All else": _other_table(figures),
    }
    return "\n\n".join(lines + [f"### {head}\n\n{table}" for head, table in parts.items() if table])


def spread_text(figures: Figures, name: str) -> str:
    """Return ``1.04 (1.03-1.06)``: median and quartiles."""
    low, high = figures.get(f"{name}/q1"), figures.get(f"{name}/q3")
    middle = f"{figures[name]:.3g}"
    return middle if low is None else f"{middle} ({low:.3g}-{high:.3g})"


def _rows(figures: Figures, kind: str) -> dict[tuple[str, ...], dict[str, str]]:
    """Return names ``kind/method/net/size/kN/variant`` as rows of variants."""
    rows: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for name in figures:
        words = name.split("/")
        if words[0] == kind and len(words) == 6 and words[-1] not in ("q1", "q3"):
            rows[tuple(words[1:5])][words[5]] = name
    return rows


def _ratio_table(figures: Figures) -> str | None:
    rows = _rows(figures, "ratio")
    if not rows:
        return None
    variants = list(dict.fromkeys(variant for row in rows.values() for variant in row))
    cells = [
        [*key, *(spread_text(figures, row[v]) if v in row else "-" for v in variants)]
        for key, row in rows.items()
    ]
    return make_table(["method", "net", "size", "K", *variants], cells, 3, markdown=True)


def _split_table(figures: Figures) -> str | None:
    rows: dict[str, dict[str, float]] = defaultdict(dict)
    for name, value in figures.items():
        if name.startswith("split/"):
            row, part = name.removeprefix("split/").rsplit("/", 1)
            rows[row][part] = value
    cells = [
        [row, *(f"{100 * parts[part]:.2g}" if part in parts else "-" for part in STAGES)]
        for row, parts in rows.items()
    ]
    return make_table(["case", *STAGES], cells, 1, markdown=True) if cells else None


def _other_table(figures: Figures) -> str | None:
    shown = {name for row in _rows(figures, "ratio").values() for name in row.values()}
    names = [
        name
        for name in figures
        if not name.startswith(("about/", "split/"))
        and not name.endswith(("/q1", "/q3"))
        and name not in shown
    ]
    cells = [[f"`{name}`", spread_text(figures, name)] for name in sorted(names)]
    return make_table(["figure", "value"], cells, 1, markdown=True) if cells else None


def draw(figures: Figures, plot: Path) -> None:
    """Draw bars of all ratios with their quartiles, and the growth of the route with K."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 5), layout="constrained")
    bars, lines = figure.subplots(1, 2, width_ratios=(3, 2))
    names = [n for row in _rows(figures, "ratio").values() for n in row.values()]
    names = [name for name in names if not name.endswith("/naive")]
    for position, name in enumerate(reversed(names)):
        value = figures[name]
        error = [[value - figures[f"{name}/q1"]], [figures[f"{name}/q3"] - value]]
        bars.barh(position, value - 1, left=1, xerr=error, color=f"C{color_index(name)}")
    labels = [name.removeprefix("ratio/") for name in reversed(names)]
    bars.set_yticks(range(len(names)), labels, fontsize=5)
    bars.axvline(1, color="black", linewidth=0.8)
    bars.set(xlabel="step over that of the base", title="reservoir over base")
    for preset in ("published", "stream"):
        prefix = f"milliseconds/route/{preset}/k"
        points = sorted(
            (int(n.removeprefix(prefix)), v) for n, v in figures.items() if n.startswith(prefix)
        )
        lines.plot([k for k, _ in points], [v for _, v in points], marker="o", label=preset)
    lines.set(xlabel="experts K", ylabel="ms", title="one route", ylim=(0, None))
    lines.legend()
    plot.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(plot, dpi=110)


def color_index(name: str) -> int:
    """Return the index of a variant's color."""
    order = ("published", "stream", "stream-exact", "stream-half", "robust", "robust-half")
    variant = name.rsplit("/", 1)[1]
    return order.index(variant) if variant in order else 9
