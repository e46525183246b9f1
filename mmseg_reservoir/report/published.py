"""The published numbers in the ``metafile.yaml`` beside a config."""

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
"""The "domain" of a published table that only has means over the domains."""
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
        """The visits that are published for every domain."""
        return sorted(set.intersection(*map(set, self.scores.values())))

    def mean(self, visit: int) -> float:
        """Return the mean over the domains at a visit, which the paper's table does not have."""
        return sum(row[visit] for row in self.scores.values()) / len(self.scores)


def load_rows(metafile: str | Path) -> list[Row]:
    """Return all rows of a metafile in OpenMMLab's format, in their order.

    If the config of a model is a table, the model has the key ``Row``. If its results have the key
    ``Stream``, it has one row per stream.
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

    The metafile is read from the config's folder, else from the bundled folder of that name.

    Args:
        config: The config file; None returns None.
        stream: Name of the run's stream (see `stream_name`). A published row without a stream
            matches every name.
        row: Row of the config, if the config is a table.
    """
    if not config:
        return None
    folder = Path(config).parent.resolve()
    metafiles = [folder / METAFILE]
    # A record may come from another machine, or be read from another working directory.
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
    """Return the name of a recorded stream in metafiles: ``"csc"``, ``"csc dirichlet 0.1"``."""
    if not record:
        return None
    correlation = record.get("correlation")
    return record["kind"] + (f" dirichlet {correlation:g}" if correlation else "")


def beside_published(
    visits: Sequence[Mapping[str, Any]], row: Row
) -> dict[str, dict[int, tuple[float, float]]]:
    """Return the run's and the published score by domain and published visit.

    The mean is over the domains that both have. Empty if the run reached no published visit.
    """
    ours = by_domain(visits)
    if set(row.scores) == {MEAN}:
        ours = {MEAN: mean_by_visit(ours)}
    domains = [domain for domain in row.scores if domain in ours]
    # The last round of an interrupted run may lack domains.
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
