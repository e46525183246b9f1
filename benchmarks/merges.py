"""The cost of a merge: bytes between a camera and a merging point, and merges per second.

    python benchmarks/merges.py work_dirs/fleet/reservoir --cameras 100000 --every 3600

The camera is simulated: a saved reservoir with a few more images, since the cost does not depend on
what was learned. The merge is that of the fleet (``snapshot/exchange.py``), in one thread. Together
with the writing of the folder it is the work of a merging point for one exchange. Times are CPU
times, without the time that the disk needs to sync.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks.common import median_seconds
from mmseg_reservoir.core.reservoir import Tally
from mmseg_reservoir.report.tables import make_table
from mmseg_reservoir.snapshot import read_folder, write_folder
from mmseg_reservoir.snapshot.exchange import Base, delta, merge_delta
from mmseg_reservoir.snapshot.reservoir_snapshot import ReservoirSnapshot

_IMAGES = 10


def with_more_images(contents: ReservoirSnapshot) -> ReservoirSnapshot:
    """Return the experts after a few more images and a small step."""
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


def main(argv: Sequence[str] | None = None) -> int:
    """Measure a merge, and compute the needs of many cameras."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a saved reservoir")
    parser.add_argument("--cameras", type=int, default=100_000)
    parser.add_argument("--every", type=float, default=3600, help="seconds between two merges")
    parser.add_argument("--times", type=int, default=9, help="repetitions of each measurement")
    args = parser.parse_args(argv)
    contents = read_folder(args.folder)
    base = Base.of(contents, [0] * len(contents.experts))
    camera, revisions = with_more_images(contents), [1] * len(contents.experts)
    merge = repeat(lambda: merge_delta(contents, revisions, delta(camera, base), base), args.times)
    merging = median_seconds(merge)
    with tempfile.TemporaryDirectory() as folder:
        write = repeat(lambda: write_folder(contents, Path(folder) / "r"), args.times)
        writing = median_seconds(write)
    sent = len(pickle.dumps(camera))
    on_disk = sum(file.stat().st_size for file in args.folder.iterdir())
    rate = args.cameras / args.every
    rows = [
        ["experts", len(contents.experts)],
        ["numbers of an expert", len(contents.layout)],
        ["folder, MB", f"{on_disk / 1e6:.2f}"],
        ["a camera sends, MB", f"{sent / 1e6:.2f}"],
        ["per expert, MB", f"{sent / 1e6 / len(contents.experts):.3f}"],
        ["merge, ms", f"{1e3 * merging:.1f}"],
        ["writing the folder, ms", f"{1e3 * writing:.1f}"],
        ["merges per second of one merging point", f"{1 / (merging + writing):.1f}"],
        [f"merges per second of {args.cameras} cameras", f"{rate:.1f}"],
        ["merging points needed", f"{rate * (merging + writing):.1f}"],
        ["network, both ways, MB/s", f"{2 * rate * sent / 1e6:.1f}"],
    ]
    print(make_table(["", "measured"], rows, markdown=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
