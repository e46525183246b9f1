"""Read the published results in the ``metafile.yaml`` beside a config."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..errors import ReservoirError
from ..io.files import shipped
from .scores import by_domain, mean_by_visit

METAFILE = "metafile.yaml"
MEAN = "mean"
"""Name of the domain in a published table that only has means over the domains."""
_METRIC = re.compile(r"(?:mIoU|error) visit (\d+)")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where available


@dataclass(frozen=True)
class Row:
    """One row of a table of methods.

    Args:
        name: Name of the row in the table.
        config: Name of the config file, without folders.
        scores: Published mIoU or error by domain and visit; empty if nothing is published.
        stream: Name of the stream (see `stream_name`), if a config has rows for several.
        row: Row of the config, such as ``"eata_reservoir"``, if the config is a table.
    """

    name: str
    config: str
    scores: Mapping[str, Mapping[int, float]]
    stream: str | None = None
    row: str | None = None

    @property
    def visits(self) -> list[int]:
        """Visits that are published for every domain."""
        return sorted(set.intersection(*map(set, self.scores.values())))

    def mean(self, visit: int) -> float:
        """Return the mean over the domains at a visit, which is not in the paper's table."""
        return sum(row[visit] for row in self.scores.values()) / len(self.scores)


def load_rows(metafile: str | Path) -> list[Row]:
    """Return all rows of a metafile in OpenMMLab's format.

    A model has the key ``Row`` if its config is a table. It has one row per stream if its results
    have the key ``Stream``.
    """
    try:
        models = yaml.load(Path(metafile).read_text(encoding="utf-8"), _Loader)["Models"]
        return [row for model in models for row in _to_rows(model)]
    except (yaml.YAMLError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())  # YAML's has several lines
        raise ReservoirError(
            f"{metafile} is no metafile of models with Name, Config and Results ({reason}): fix "
            "or remove it"
        ) from error


def _to_rows(model: Mapping[str, Any]) -> list[Row]:
    by_stream: dict[str | None, dict[str, dict[int, float]]] = {}
    for result in model.get("Results") or []:
        domain = result["Dataset"].split()[-1]  # "ACDC fog"
        matches = ((_METRIC.fullmatch(name), value) for name, value in result["Metrics"].items())
        scores = {int(match[1]): float(value) for match, value in matches if match}
        by_stream.setdefault(result.get("Stream"), {})[domain] = scores
    config = Path(model["Config"]).name
    return [
        Row(model["Name"], config, scores, stream, model.get("Row"))
        for stream, scores in (by_stream or {None: {}}).items()
    ]


def find_row(
    config: str | Path | None, stream: str | None = None, row: str | None = None
) -> Row | None:
    """Return the published row of a config file; None if there is no such row.

    The metafile is in the config's folder, else in the bundled folder of that name.

    Args:
        config: Config file; None has no row.
        stream: Name of the run's stream (see `stream_name`). A row without a stream matches any.
        row: Row of the config, if the config is a table.
    """
    if not config:
        return None
    folder = Path(config).parent.resolve()
    metafiles = [folder / METAFILE]
    # The config's path may be of another machine or working directory.
    if not metafiles[0].is_file():
        bundled = sorted(shipped("configs").rglob(METAFILE))
        metafiles = [file for file in bundled if file.parent.name == folder.name]
    for published in load_rows(metafiles[0]) if metafiles else []:
        same = (published.config, published.row) == (Path(config).name, row)
        if same and published.scores and published.stream in (None, stream):
            return published
    return None


def row_of(results: Mapping[str, Any]) -> Row | None:
    """Return the published row of a run's ``results.json``; None if there is no such row."""
    stream = stream_name(results.get("stream"))
    return find_row(results.get("config_file"), stream, results.get("row"))


def stream_name(record: Mapping[str, Any] | None) -> str | None:
    """Return a stream's name in metafiles, such as ``"csc"`` or ``"csc dirichlet 0.1"``."""
    if not record:
        return None
    correlation = record.get("correlation")
    return record["kind"] + (f" dirichlet {correlation:g}" if correlation else "")


def beside_published(
    visits: Sequence[Mapping[str, Any]], row: Row
) -> dict[str, dict[int, tuple[float, float]]]:
    """Return pairs of the run's and the published score, by domain and published visit.

    The mean is over common domains. The result is empty if the run reached no published visit.
    """
    ours = by_domain(visits)
    if set(row.scores) == {MEAN}:
        ours = {MEAN: mean_by_visit(ours)}
    domains = [domain for domain in row.scores if domain in ours]
    # Domains may be missing in the last round of an interrupted run.
    reached = min((len(ours[domain]) for domain in domains), default=0)
    shown = [visit for visit in row.visits if visit <= reached]
    if not shown:
        return {}
    pairs = {d: {v: (ours[d][v - 1], row.scores[d][v]) for v in shown} for d in domains}
    means = {}
    for visit in shown:
        mine, theirs = zip(*(pairs[domain][visit] for domain in domains), strict=True)
        means[visit] = (sum(mine) / len(mine), sum(theirs) / len(theirs))
    return {**pairs, MEAN: means}
