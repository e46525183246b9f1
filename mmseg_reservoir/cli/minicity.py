"""Write the MiniCity data set: street scenes in five conditions.

The conditions are clear air, fog, night, rain and snow.

reservoir minicity data/minicity
reservoir minicity data/small --train 20 --val 5 --per-condition 4
"""

from __future__ import annotations

import argparse

from .command_line import Verb
from .options import option, shared


def _run(args: argparse.Namespace) -> None:
    from ..minicity import make_counts, write_dataset

    counts = make_counts(args.train, args.val, args.per_condition, args.per_condition // 2)
    written = write_dataset(args.root, args.seed, counts, args.overwrite)
    for condition, splits in written.counts.items():
        print(f"{condition:>6}: {splits['train']:4d} train, {splits['val']:4d} val")
    total = sum(sum(splits.values()) for splits in written.counts.values())
    done = "is there already, nothing written" if written.reused else "written"
    print(f"{total} pictures {done}: {written.root} ({written.seconds:.1f} s)")


main = Verb(
    __doc__,
    _run,
    option("root", "write to this folder, such as data/minicity"),
    shared("--seed", default=0),
    option("--train N", "write N clear images to train on", type=int, default=800),
    option("--val N", "write N clear images to validate on", type=int, default=100),
    option(
        "--per-condition N",
        "write N training images each of fog, night, rain and snow, and N/2 to validate on",
        type=int,
        default=40,
    ),
    shared("--overwrite", help="replace another MiniCity in this folder"),
)
