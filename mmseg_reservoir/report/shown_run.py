"""Load runs for reports, with their names, records and base runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ReservoirError
from ..runs.reader import Results, group_names, read_runs
from ..runs.style_sample import Styles, read_styles
from .scores import metric_of


@dataclass(frozen=True)
class ShownRun:
    """The results of a run with its displayed name and its stored styles."""

    name: str
    results: Results
    styles: Styles | None = None

    @property
    def metric(self) -> str:
        return metric_of(self.results["visits"])

    @property
    def domains(self) -> list[str]:
        """Domains in the order of their first visit."""
        return list(dict.fromkeys(visit["domain"] for visit in self.results["visits"]))

    @property
    def panels(self) -> Path | None:
        """Folder of the run's pseudo-labels; None if they do not exist."""
        for hook in self.results["config"].get("custom_hooks") or []:
            if hook["type"] == "PseudoLabelHook" and Path(hook["show_dir"]).is_dir():
                return Path(hook["show_dir"])
        return None

    def base(self, runs: Sequence[ShownRun]) -> ShownRun | None:
        """Return the run of the same method and domains without a reservoir, if any."""
        if not self.results["reservoir"]:
            return None
        for run in runs:
            same = run.results.get("method") == self.results.get("method")
            if same and not run.results["reservoir"] and run.domains == self.domains:
                return run
        return None


def load_runs(arguments: Sequence[str]) -> list[ShownRun]:
    """Load runs from work directories, folders above them, or ``results.json`` files.

    ``TENT=work_dirs/tent`` sets the name of a run. The default name is that of the config, with
    the options in which runs of one config differ, and the seed if names are still equal.
    """
    records: dict[Path, Results] = {}
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
        records |= runs
        names |= {file: name for file in runs if name}
    for file, results in records.items():
        if not results["visits"] or not results["routes"]:
            raise ReservoirError(f"{file} has no visit yet: wait for one, or leave it out")
    if len({metric_of(results["visits"]) for results in records.values()}) > 1:
        raise ReservoirError(
            "the runs are of segmentation and of classification: make one page for each task"
        )
    defaults = group_names([{file: results} for file, results in records.items()])
    names = dict(zip(records, defaults, strict=True)) | names
    often = Counter(names.values())
    shown = []
    for file, results in records.items():
        seed = f" (seed {results['seed']})" if often[names[file]] > 1 else ""
        styles = read_styles(file.parent)
        if styles is not None:  # the styles' file may be newer than the record
            styles = styles.of_first(len(results["routes"]))
        shown.append(ShownRun(names[file] + seed, results, styles))
    return shown
