"""What a merge costs: bytes that a camera sends and gets, and how many fit into a second.

    python benchmarks/merges.py work_dirs/fleet/reservoir --cameras 100000 --every 3600

Takes a saved reservoir. A camera that has seen a few more images is made up of it, since the cost
does not depend on what was learned. The merge is that of the fleet (``portable/exchange.py``), in
one thread; with the writing of the folder it is what one merging point does for one exchange.
Times are those of the processor: what the disk takes to sync comes on top of them.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from mmseg_reservoir.core.reservoir import Tally
from mmseg_reservoir.report.tables import make_table
from mmseg_reservoir.snapshot import read_folder, write_folder
from mmseg_reservoir.snapshot.exchange import Base, absorb, news
from mmseg_reservoir.snapshot.reservoir_snapshot import ReservoirSnapshot

_IMAGES = 10


def went_on(contents: ReservoirSnapshot) -> ReservoirSnapshot:
    """The experts after some images more, and a little step."""
    return replace(
        contents,
        calibration=None,
        experts=[
            replace(
                expert,
                parameters=expert.parameters * 1.001,
                tally=Tally(expert.tally.images + _IMAGES, expert.tally.visits + 1),
            )
            for expert in contents.experts
        ],
    )


def median_time(act: Callable[[], object], times: int) -> float:
    """Seconds of the processor that it takes."""
    seconds = []
    for _ in range(times):
        start = time.process_time()
        act()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and say what so many cameras would need."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a saved reservoir")
    parser.add_argument("--cameras", type=int, default=100_000)
    parser.add_argument("--every", type=float, default=3600, help="seconds between two merges")
    parser.add_argument("--times", type=int, default=9)
    args = parser.parse_args(argv)
    contents = read_folder(args.folder)
    base = Base.of(contents, [0] * len(contents.experts))
    camera, revisions = went_on(contents), [1] * len(contents.experts)
    merging = median_time(lambda: absorb(contents, revisions, news(camera, base), base), args.times)
    with tempfile.TemporaryDirectory() as folder:
        writing = median_time(lambda: write_folder(contents, Path(folder) / "r"), args.times)
    sent = len(pickle.dumps(camera))
    on_disk = sum(file.stat().st_size for file in args.folder.iterdir())
    rate = args.cameras / args.every
    rows = [
        ["experts", len(contents.experts)],
        ["numbers of an expert", len(contents.layout)],
        ["folder, MB", f"{on_disk / 1e6:.2f}"],
        ["a camera sends, MB", f"{sent / 1e6:.2f}"],
        ["of it per expert, MB", f"{sent / 1e6 / len(contents.experts):.3f}"],
        ["merge, ms", f"{1e3 * merging:.1f}"],
        ["writing the folder, ms", f"{1e3 * writing:.1f}"],
        ["merges per second of one point", f"{1 / (merging + writing):.1f}"],
        [f"merges per second of {args.cameras} cameras", f"{rate:.1f}"],
        ["merging points for them", f"{rate * (merging + writing):.1f}"],
        ["network, both ways, MB/s", f"{2 * rate * sent / 1e6:.1f}"],
    ]
    print(make_table(["", "measured"], rows, markdown=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
