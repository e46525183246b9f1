"""Write the MiniCity data set: street scenes in five conditions.

The conditions are clear air, fog, night, rain and snow.

reservoir minicity data/minicity
reservoir minicity data/small --train 20 --val 5 --per-condition 4
"""

from __future__ import annotations

import argparse

from .command_line import Verb
from .options import share


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("root", help="write to this folder, such as data/minicity")
    share(parser, "--seed", default=0)
    parser.add_argument(
        "--train", type=int, default=800, metavar="N", help="write N clear images to train on"
    )
    parser.add_argument(
        "--val", type=int, default=100, metavar="N", help="write N clear images to validate on"
    )
    parser.add_argument(
        "--per-condition",
        type=int,
        default=40,
        metavar="N",
        help="write N training images each of fog, night, rain and snow, and N/2 to validate on",
    )
    share(parser, "--overwrite", help="replace another MiniCity in this folder")


def run(args: argparse.Namespace) -> None:
    """Write the data set and print its counts."""
    from ..minicity import make_counts, write_dataset

    counts = make_counts(args.train, args.val, args.per_condition, args.per_condition // 2)
    written = write_dataset(args.root, args.seed, counts, args.overwrite)
    for condition, splits in written.counts.items():
        print(f"{condition:>6}: {splits['train']:4d} train, {splits['val']:4d} val")
    total = sum(sum(splits.values()) for splits in written.counts.values())
    done = "is there already, nothing written" if written.reused else "written"
    print(f"{total} pictures {done}: {written.root} ({written.seconds:.1f} s)")


main = Verb(__doc__, add_options, run)
