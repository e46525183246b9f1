"""Tables of runs with the same seeds: scores, and paired differences with standard errors.

A seed is a draw of the stream. All rows have the same seeds, because the difference of two rows by
seed scatters less than either of them.
"""

from __future__ import annotations

import sys
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from mmengine.config import Config

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.files import write_text
from mmseg_reservoir.report.charts import plot_curves
from mmseg_reservoir.report.scores import routing_purity, scores_by_domain
from mmseg_reservoir.report.summary import Group, Statistic
from mmseg_reservoir.report.tables import make_table
from mmseg_reservoir.runs.reader import Results


class Cell(NamedTuple):
    """A row of the tables. The source has no method and no rate."""

    method: str | None
    rate: float | None
    variant: str

    @property
    def name(self) -> str:
        """Its name in folders and messages."""
        return "_".join(map(str, self.words)) if self.method else self.variant

    @property
    def words(self) -> list[str]:
        """The first three columns of a table."""
        return [self.method or "-", "-" if self.rate is None else f"{self.rate:g}", self.variant]


Runs = Mapping[Cell, Mapping[int, Results]]
"""The finished runs of every row, by seed."""
Column = tuple[str, Callable[[Results], float]]
"""A heading, and the number of a run below it."""


def reservoir_of(variant: str, written: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the options of a variant's reservoir.

    ``robust`` is a preset; ``robust,pooling=None,guard.every=32`` changes some of its options.

    Args:
        variant: A preset, with or without changes.
        written: Options of the config's reservoir for every preset; changes override them.
    """
    preset, *changes = variant.split(",")
    options = Config({**(written or {}), "preset": preset})
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals:
            raise ReservoirError(
                f"{change!r} of the variant {variant!r} is no option=value, such as guard.every=32"
            )
        with suppress(ValueError, SyntaxError):  # a word is a string
            value = literal_eval(value)
        options.merge_from_dict({name: value})
    return options.to_dict()


def cells_of(methods: Iterable[str], rates: Sequence[float], variants: Sequence[str]) -> list[Cell]:
    """Return all rows in order."""
    variants = list(dict.fromkeys(variants))
    rows = [Cell(None, None, "source")] if "source" in variants else []
    return rows + [
        Cell(method, rate, variant)
        for method in dict.fromkeys(methods)
        for rate in dict.fromkeys(rates)
        for variant in variants
        if variant != "source"
    ]


def at(domain: str) -> dict[str, Callable[[Results], float]]:
    """Return the scores of a domain, or of the ``mean``, at three times of the stream."""
    return {
        "visit 1": lambda run: scores_by_domain(run)[domain][0],
        "last visit": lambda run: scores_by_domain(run)[domain][-1],
        "mean over visits": lambda run: mean(scores_by_domain(run)[domain]),
    }


def score_table(runs: Runs, columns: Sequence[Column]) -> str:
    """Return one row per cell: mean over the seeds ± sample deviation."""
    rows = [
        [*cell.words, len(by_seed)]
        + [Statistic.of([of(run) for run in by_seed.values()]).text() for _, of in columns]
        for cell, by_seed in runs.items()
        if by_seed
    ]
    return make_table(_header("seeds", columns), rows, 3, markdown=True)


def difference_table(runs: Runs, variant: str, columns: Sequence[Column]) -> str | None:
    """Return each row's difference to a variant of its method: mean over seeds ± standard error.

    None if there is no pair.
    """
    rows = []
    for cell, by_seed in runs.items():
        other = reference(runs, cell, variant)
        pairs = [(run, other[seed]) for seed, run in by_seed.items() if seed in other]
        if pairs:
            cells = [difference([of(a) - of(b) for a, b in pairs]) for _, of in columns]
            rows.append([*cell.words, len(pairs), *cells])
    return make_table(_header("pairs", columns), rows, 3, markdown=True) if rows else None


def reference(runs: Runs, cell: Cell, variant: str) -> Mapping[int, Results]:
    """Return the runs of a variant with the method and the rate of a cell by seed.

    Empty for the variant itself.
    """
    if cell.variant in (variant, "source"):
        return {}
    if variant == "source":  # if no order changes it, one run is compared with all seeds
        once = runs.get(Cell(None, None, variant)) or {}
        return {seed: once.get(seed, once[min(once)]) for seed in runs[cell]} if once else {}
    return runs.get(Cell(cell.method, cell.rate, variant), {})


def difference(values: Sequence[float]) -> str:
    """Return ``+0.42 ± 0.10``: mean and standard error; of one value ``+0.42 ± -``."""
    statistic = Statistic.of(values)
    deviation = statistic.deviation
    error = "-" if deviation is None else f"{deviation / len(values) ** 0.5:.2f}"
    return f"{statistic.mean:+.2f} ± {error}"


def routing_table(runs: Runs) -> str | None:
    """Return the routing and guard figures of the reservoirs; None without one."""
    rows = []
    for cell, by_seed in runs.items():
        kept = [run for run in by_seed.values() if run["reservoir"]]
        if not kept:
            continue
        facts = [
            ([run["routes"][-1]["k"] for run in kept], 1),
            ([routing_purity(run["routes"]) for run in kept], 3),
            ([second_passes(run) for run in kept], 3),
        ]
        cells = [Statistic.of(values).text(digits) for values, digits in facts]
        if all("guard" in run for run in kept):
            counts = [[_guard_count(run, name) for run in kept] for name in ("probes", "alarms")]
            steps = [len(run["routes"]) for run in kept]
            probes = [n / all_ for n, all_ in zip(counts[0], steps, strict=True)]
            cells += [Statistic.of(probes).text(3), Statistic.of(counts[1]).text(1)]
        else:
            cells += ["-", "-"]
        rows.append([*cell.words, *cells])
    heads = ["experts K", "purity", "second passes", "guard's passes", "guard's alarms"]
    return (
        make_table(["method", "rate", "variant", *heads], rows, 3, markdown=True) if rows else None
    )


def second_passes(run: Results) -> float:
    """Return the share of steps with a separate forward pass of the ensemble."""
    pipeline = run["options"]["reservoir"]["pipeline"]
    if pipeline.get("predict") == "after":
        return 1.0
    if not pipeline.get("ensemble", True):
        return 0.0
    return mean(route["weight"] < pipeline["one_hot"] for route in run["routes"])


def _guard_count(run: Results, name: str) -> int:
    return sum(expert[name] for expert in run["guard"]["experts"].values())


def collect(jobs: Mapping[tuple[Cell, int], Future]) -> tuple[Runs, int]:
    """Wait for all runs; report, count and leave out those that fail."""
    runs: dict[Cell, dict[int, Results]] = {cell: {} for cell, _ in jobs}
    failures = 0
    for (cell, seed), job in jobs.items():
        try:
            runs[cell][seed] = job.result()
        except Exception as error:  # the other runs count in any case
            failures += 1
            print(f"{cell.name}, seed {seed}: failed: {error}", file=sys.stderr, flush=True)
        else:
            print(f"{cell.name}, seed {seed}: done", flush=True)
    return runs, failures


def draw(runs: Runs, path: Path) -> None:
    """Draw a panel per method and rate, with a curve per variant: mean and deviation by visit."""
    panels: dict[str, dict[str, list[Statistic]]] = {}
    metric = ""
    for cell, by_seed in runs.items():
        if by_seed and cell.method:
            rate = "" if cell.rate in (None, 1) else f", {cell.rate:g} times the rate"
            group = Group(cell.name, {Path(str(seed)): run for seed, run in by_seed.items()})
            metric = group.metric
            panels.setdefault(f"{cell.method}{rate}", {})[cell.variant] = group.scores["mean"]
    if panels:
        plot_curves(panels, path, metric)


def write_summary(path: Path, title: str, parts: Mapping[str, str | None], explanation: str) -> str:
    """Write a Markdown document of tables below their headings; return its text."""
    shown = [f"## {heading}\n\n{table}" for heading, table in parts.items() if table]
    text = "\n\n".join([f"# {title}", explanation, *shown]) + "\n"
    write_text(path, text)
    return text


def _header(counted: str, columns: Sequence[Column]) -> list[str]:
    return ["method", "rate", "variant", counted, *(heading for heading, _ in columns)]
