"""Write tables and charts of runs to one HTML file that needs no network."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from plotly.offline import get_plotlyjs

from ... import __version__
from ...config.presets import DEFAULT
from ...io.files import write_text
from ...runs.record import strict_json
from ..frame_panels import gallery
from ..scores import forgetting
from ..shown_run import ShownRun
from .plotly_charts import class_charts, extra_set_charts, route_charts, score_charts, time_chart
from .score_tables import conclude, overview, score_table
from .style import Chart


@dataclass(frozen=True)
class Section:
    """A heading and its charts."""

    title: str
    charts: list[Chart]
    key: str
    """Anchor of the section."""
    link: str = ""
    """Text of the link in the navigation; empty for no link."""
    least: int = 400
    """Smallest width of a chart in pixels, if the screen is wide enough."""


def write_page(
    runs: Sequence[ShownRun], path: Path, warn: Callable[[str], object], title: str = ""
) -> Path:
    """Write the page of one or more runs, and return its path.

    ``warn`` receives one line about each part that is left out. The title defaults to the name of
    the run, or the number of runs.
    """
    return write_text(path, render(runs, warn, title))


def render(runs: Sequence[ShownRun], warn: Callable[[str], object], title: str = "") -> str:
    """Return the page as text (see `write_page`)."""
    tables = [score_table(run, runs, warn) for run in runs]
    hero, *by_domain = score_charts(runs)
    sections = _sections(runs, by_domain)
    charts = [hero, *(chart for section in sections for chart in section.charts)]
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_text("page.html")).render(
        title=title or (runs[0].name if len(runs) == 1 else f"{len(runs)} runs"),
        version=__version__,
        metric=runs[0].metric,
        conclusion=conclude(runs),
        hero=hero,
        overview=overview(runs, tables),
        tables=tables,
        losses={run.name: forgetting(run.results["visits"]) for run in runs},
        details=[_details(run) for run in runs],
        sections=sections,
        figures=[json.loads(chart.figure.to_json()) for chart in charts],
        frames=gallery(runs),
        css=_text("page.css"),
        script=_text("page.js"),
        plotly=_packed(get_plotlyjs()),
    )


def _sections(runs: Sequence[ShownRun], by_domain: list[Chart]) -> list[Section]:
    metric, extra = runs[0].metric, "Extra evaluation sets"
    sections = [
        Section(f"{metric} by domain", by_domain, "scores", "By domain"),
        Section("IoU by class", class_charts(runs), "classes", "By class", least=350),
        Section(extra, extra_set_charts(runs), "also", extra),
    ]
    for i, run in enumerate(run for run in runs if run.results["reservoir"]):
        link = "" if i else "Routing"
        sections.append(Section(f"Routing of {run.name}", route_charts(run), f"routing{i}", link))
    sections.append(Section("Time", time_chart(runs), "time", "Time"))
    return [section for section in sections if section.charts]


def _details(run: ShownRun) -> dict[str, Any]:
    results = run.results
    reservoir = results["config"].get("reservoir") or {}
    preset = reservoir if isinstance(reservoir, str) else reservoir.get("preset", DEFAULT)
    facts = {
        "config": Path(results.get("config_file") or "").name,
        "row": results.get("row"),
        "method": results.get("method"),
        "reservoir": f"preset {preset}" if results["reservoir"] else "none",
        "stream": (results.get("stream") or {}).get("kind"),
        "domains": ", ".join(run.domains),
        "rounds": max(visit["round"] for visit in results["visits"]),
        "images": sum(visit.get("n_images", 0) for visit in results["visits"]),
        "seed": results["seed"],
        "updates": (results.get("updates") or {}).get("updates"),
        "skipped by the trigger": (results.get("trigger") or {}).get("rests"),
        "state": "complete" if results["complete"] else "not complete",
        "versions": ", ".join(f"{k} {v}" for k, v in (results.get("versions") or {}).items()),
    }
    shown = {name: value for name, value in facts.items() if value not in (None, "")}
    return {"name": run.name, "facts": shown, "options": strict_json(results.get("options") or {})}


def _packed(script: str) -> str:
    """Return a script compressed: 2 MB instead of 5 MB for Plotly. The page unpacks it."""
    return base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode("ascii")


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
