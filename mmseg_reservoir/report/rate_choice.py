"""Choose a learning rate from a grid without labels.

The criterion detects a collapse. Other rates hardly differ in it, and it prefers small ones. For
example TENT on MiniCity (2 rounds, seed 0) has 1.490 nats and 34.6 mIoU at 6e-7, where it hardly
adapts, and 1.483 nats and 34.9 mIoU at 1e-4. So the whole grid is always reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..runs.reader import Results
from .scores import scores_by_domain
from .tables import make_table, score_cells

LR_GRID = (6e-7, 2e-6, 7.5e-6, 2.5e-5, 1e-4)
"""Learning rates with a ratio of about 3.5, including the paper's for ACDC (7.5e-6, 6e-7)."""
CRITERION = (
    "highest mean information over all images of the stream: the entropy of the image's mean class "
    "distribution minus the mean entropy of its pixels, of the prediction that was scored (Eq. 10 "
    "of the paper with the opposite sign)"
)


def information(results: Results) -> float | None:
    """Return the criterion of a run in nats; None if a value is not finite.

    It is the entropy of the mean prediction, minus the mean entropy of the pixels, averaged over
    the run. A model that adapts well becomes certain of its pixels, which lowers the second term.
    A model that collapses predicts one class everywhere, which lowers the first term as well.
    """
    pairs = [(r.get("marginal_entropy"), r.get("entropy")) for r in results["routes"]]
    if not pairs or any(value is None for pair in pairs for value in pair):
        return None
    return sum(marginal - entropy for marginal, entropy in pairs) / len(pairs)


def fair_record(runs: Mapping[float, Results], folders: Mapping[float, Path]) -> dict[str, Any]:
    """Return the record of a grid's runs by learning rate, with the chosen rate."""
    rows = [
        {
            "lr": lr,
            "folder": str(folders[lr]),
            "information": information(results),
            "mIoU": scores_by_domain(results),
            "k": results["routes"][-1]["k"],
            "updates": results["updates"],
        }
        for lr, results in runs.items()
    ]
    finite = [row for row in rows if row["information"] is not None]
    first = next(iter(runs.values()))
    return {
        "protocol": "fair",
        "config_file": first.get("config_file"),
        "seed": first["seed"],
        "grid": list(runs),
        "criterion": CRITERION,
        "labels_used_for_the_choice": False,
        "chosen": max(finite, key=lambda row: row["information"])["lr"] if finite else None,
        "runs": rows,
    }


def fair_table(record: Mapping[str, Any]) -> str:
    """Return the mean over the domains by learning rate and visit; * marks the chosen rate."""
    means = [row["mIoU"]["mean"] for row in record["runs"]]
    rounds = max(map(len, means))
    rows = []
    for row, scores in zip(record["runs"], means, strict=True):
        mark = " *" if row["lr"] == record["chosen"] else ""
        information = "-" if row["information"] is None else f"{row['information']:.4f}"
        rows.append([f"{row['lr']:g}{mark}", *score_cells(scores, rounds), information, row["k"]])
    if record["chosen"] is None:
        choice = "No learning rate is chosen: no run has finite predictions throughout."
    else:
        choice = f"* chosen without labels ({record['criterion']}); mIoU was not used."
        grid = record["grid"]
        if len(grid) > 1 and record["chosen"] in (min(grid), max(grid)):
            choice += "\nIt is at the end of the grid: a wider one may hold a better rate."
    header = ["learning rate", *range(1, rounds + 1), "mean", "information", "K"]
    return f"{make_table(header, rows)}\n{choice}"
