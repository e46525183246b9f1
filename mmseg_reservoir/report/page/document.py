"""The page itself: sections of tables and charts, in one file that needs no network."""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from plotly.offline import get_plotlyjs

from ... import __version__
from ...config.presets import DEFAULT
from ...io.files import write_text
from ...runs.record import strict_json
from ..comparison import comparison_figure
from ..conclusion import conclude
from ..figure_data import forgetting
from ..paper_figures import assignment_figure
from ..shown_run import ShownRun
from .base import Chart
from .gallery import gallery
from .route_charts import route_charts, time_chart
from .score_charts import also_charts, class_charts, score_charts
from .score_tables import overview, score_table
from .style_charts import style_charts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Section:
    """A heading, what to know, and charts."""

    title: str
    charts: list[Chart]
    note: str = ""
    key: str = field(default="")
    """The anchor of its link."""
    link: str = ""
    """The text of its link in the navigation; empty without one."""
    least: int = 400
    """Pixels that a chart takes at least, where the screen has them."""


def write_page(
    runs: Sequence[ShownRun], path: Path, warn: Callable[[str], object], title: str = ""
) -> Path:
    """Write the page of some runs; returns where.

    Args:
        runs: One, or several to compare.
        path: The file.
        warn: Gets one line about each thing that is left out.
        title: The heading; by default the name of the run, or how many there are.
    """
    return write_text(path, render(runs, warn, title))


def render(runs: Sequence[ShownRun], warn: Callable[[str], object], title: str = "") -> str:
    """The page as text (see `write_page`)."""
    tables = [score_table(run, runs, warn) for run in runs]
    hero, *by_domain = score_charts(runs)
    sections = _sections(runs, by_domain)
    charts = [hero, *(chart for section in sections for chart in section.charts)]
    page = _template("page.html")
    return page.render(
        title=title or (runs[0].name if len(runs) == 1 else f"{len(runs)} runs"),
        version=__version__,
        metric=runs[0].metric,
        conclusion=conclude(runs),
        hero=hero,
        overview=overview(runs, tables),
        tables=tables,
        losses={run.name: forgetting(run.results["visits"]) for run in runs},
        about=[_about(run) for run in runs],
        sections=sections,
        figures=[json.loads(chart.figure.to_json()) for chart in charts],
        frames=gallery(runs),
        pictures=_static(runs),
        css=_text("page.css"),
        script=_text("page.js"),
        plotly=_packed(get_plotlyjs()),
    )


def _sections(runs: Sequence[ShownRun], by_domain: list[Chart]) -> list[Section]:
    metric = runs[0].metric
    time = time_chart(runs)
    sections = [
        Section(f"{metric} by domain", by_domain, key="scores", link="By domain"),
        Section("IoU by class", class_charts(runs), key="classes", link="By class", least=350),
        Section("Sets beside the stream", also_charts(runs), key="also", link="Beside the stream"),
    ]
    for i, run in enumerate(run for run in runs if run.results["reservoir"]):
        charts = [*route_charts(run), *style_charts(run)]
        link = "" if i else "Routing"
        sections.append(Section(f"Routing of {run.name}", charts, key=f"routing{i}", link=link))
    sections.append(Section("Time", [] if time is None else [time], key="time", link="Time"))
    return [section for section in sections if section.charts]


def _about(run: ShownRun) -> dict[str, Any]:
    """What was run, in a few words, and all of it."""
    results = run.results
    stream = results.get("stream") or {}
    options = results.get("options") or {}
    reservoir = results["config"].get("reservoir") or {}
    preset = reservoir if isinstance(reservoir, str) else reservoir.get("preset", DEFAULT)
    facts = {
        "config": Path(results.get("config_file") or "").name,
        "row": results.get("row"),
        "method": results.get("method"),
        "reservoir": f"preset {preset}" if results["reservoir"] else "none",
        "stream": stream.get("kind"),
        "domains": ", ".join(run.domains),
        "rounds": max(visit["round"] for visit in results["visits"]),
        "images": sum(visit.get("n_images", 0) for visit in results["visits"]),
        "seed": results["seed"],
        "updates": (results.get("updates") or {}).get("updates"),
        "rested at by the trigger": (results.get("trigger") or {}).get("rests"),
        "state": "complete" if results["complete"] else "not complete",
        "versions": ", ".join(f"{k} {v}" for k, v in (results.get("versions") or {}).items()),
    }
    known = {name: value for name, value in facts.items() if value not in (None, "")}
    return {"name": run.name, "facts": known, "options": strict_json(options)}


def _static(runs: Sequence[ShownRun]) -> list[tuple[str, str]]:
    """Captions and pictures for readers without scripts."""
    pictures = []
    if all(run.domains == runs[0].domains for run in runs):
        drawn = comparison_figure({run.name: run.results for run in runs})
        pictures.append((f"{runs[0].metric} by visit", _png(drawn)))
    for run in runs:
        if run.results["reservoir"]:
            drawn = assignment_figure({run.name: run.results})
            pictures.append((f"Experts and domains: {run.name}", _png(drawn)))
    return pictures


def _png(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=80)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def _packed(script: str) -> str:
    """A script as the page unpacks it: of Plotly's, 2 MB in place of 5."""
    return base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode("ascii")


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _template(name: str) -> Any:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_text(name))
