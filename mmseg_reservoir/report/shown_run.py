"""Runs to be shown: their names, their records, and which is the base of which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ReservoirError
from ..runs.reader import group_names, read_runs
from ..runs.style_sample import Styles, read_styles
from .tables import Results, metric_of


@dataclass(frozen=True)
class ShownRun:
    """A run under the name that it is shown by.

    Args:
        name: Its name.
        results: The content of its ``results.json``.
        styles: What was kept of its styles; None if nothing was.
    """

    name: str
    results: Results
    styles: Styles | None = None

    @property
    def metric(self) -> str:
        """``"mIoU"`` or ``"error"``."""
        return metric_of(self.results["visits"])

    @property
    def domains(self) -> list[str]:
        """The domains that it is scored on, in the order of the stream."""
        return list(dict.fromkeys(visit["domain"] for visit in self.results["visits"]))

    @property
    def panels(self) -> Path | None:
        """Where its pseudo-labels are, if it saved some, and if they are still there."""
        for hook in self.results["config"].get("custom_hooks") or []:
            if hook["type"] == "PseudoLabelHook" and Path(hook["show_dir"]).is_dir():
                return Path(hook["show_dir"])
        return None

    def base(self, runs: Sequence[ShownRun]) -> ShownRun | None:
        """The run of the same method without a reservoir, on the same domains."""
        if not self.results["reservoir"]:
            return None
        for run in runs:
            same = run.results.get("method") == self.results.get("method")
            if same and not run.results["reservoir"] and run.domains == self.domains:
                return run
        return None


def load_runs(arguments: Sequence[str]) -> list[ShownRun]:
    """Work directories, folders above them or ``results.json`` files, each with a name if wanted.

    ``TENT=work_dirs/tent`` names a run; others are called after their config, and by what they
    differ in.
    """
    found: dict[Path, Results] = {}
    names: dict[Path, str] = {}
    for argument in arguments:
        name, sign, path = argument.partition("=")
        if not sign or Path(argument).exists():
            name, path = "", argument
        runs = read_runs([path])
        if name and len(runs) > 1:
            raise ReservoirError(
                f"{path} holds {len(runs)} runs, which cannot all be called {name!r}: name one "
                "work directory"
            )
        found |= runs
        names |= {file: name for file in runs if name}
    for file, results in found.items():
        if not results["visits"] or not results["routes"]:
            raise ReservoirError(f"{file} has no visit yet: wait for one, or leave it out")
    metrics = {metric_of(results["visits"]) for results in found.values()}
    if len(metrics) > 1:
        raise ReservoirError(
            "the runs are of segmentation and of classification: make a page of each"
        )
    own = group_names([{file: results} for file, results in found.items()])
    names = dict(zip(found, own, strict=True)) | names
    often = Counter(names.values())
    return [
        ShownRun(
            names[file] + (f" (seed {results['seed']})" if often[names[file]] > 1 else ""),
            results,
            _styles(file.parent, results),
        )
        for file, results in found.items()
    ]


def _styles(folder: Path, results: Results) -> Styles | None:
    """Return the styles of a run, whose files may be written at this moment."""
    styles = read_styles(folder)
    return None if styles is None else styles.of_first(len(results["routes"]))
