"""Segment the footage of many cameras that share their experts.

reservoir fleet north/ south.mp4 'east/*.png' --model CONFIG --merge-every 200
reservoir fleet north/ south.mp4 --model CONFIG --start-from yesterday/reservoir
reservoir fleet cameras/*/ --model CONFIG --ray auto    on the cluster of this machine

The same command resumes what was killed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ReservoirError
from ..fleet.ray_session import ray_session
from ..report.tables import make_table
from .command_line import Verb
from .options import add_footage_options, share

if TYPE_CHECKING:
    from ..fleet.camera_run import CameraRun


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "streams", nargs="+", help="folders, globs, video files, camera numbers: one per camera"
    )
    share(parser, "--model", required=True)
    add_footage_options(parser)
    share(parser, "--out", default=Path("work_dirs/fleet"))
    share(parser, "--save-every", default=50)
    parser.add_argument(
        "--merge-every",
        type=int,
        default=100,
        metavar="N",
        help="merge the experts of a camera with those of all every N frames",
    )
    parser.add_argument("--no-merge", action="store_true", help="keep the cameras apart")
    parser.add_argument(
        "--restarts",
        type=int,
        default=3,
        metavar="N",
        help="restart a camera whose process dies up to N times",
    )
    parser.add_argument(
        "--cpus", type=float, default=1.0, metavar="N", help="reserve N cores for each camera"
    )
    share(parser, "--ray", "--jobs")


def make_cameras(args: argparse.Namespace) -> list[CameraRun]:
    """A camera for every stream, each with a folder of its own."""
    from ..fleet.camera_run import CameraRun
    from ..footage.fleet_footage import InferencerOrder
    from ..seg.source_images import find_source_images

    source_images = find_source_images(args.source_images)
    options: dict[str, Any] = {
        "weights": args.weights,
        "size": args.size,
        "seed": args.seed,
        "device": args.device,
        "cfg_options": dict(args.cfg_options),
    }
    if source_images is not None:
        options["source_images"] = source_images
    written = {"shown": "none", "labels": args.labels}
    cameras = []
    for name, stream in zip(_names(args.streams), args.streams, strict=True):
        folder = (args.out / name).resolve()
        order = InferencerOrder(stream, folder, args.model, options, args.every, written)
        often = args.merge_every, args.save_every
        cameras.append(CameraRun(name, folder, order, args.start_from, *often))
    return cameras


def run(args: argparse.Namespace) -> int:
    """Run all streams and report their results; return 1 if one failed."""
    from ..fleet.camera_fleet import run_fleet

    cameras = make_cameras(args)
    merged = args.out / "reservoir"
    with ray_session(args.ray, args.jobs) as ray:
        outcomes = run_fleet(
            ray,
            cameras,
            merged,
            not args.no_merge,
            args.restarts,
            args.cpus,
            partial(print, flush=True),
        )
    failed = [name for name, outcome in outcomes.items() if "error" in outcome]
    columns = ("frames", "k", "exchanges")
    rows = [
        [name, *(outcome.get(column, "-") for column in columns), _state_of(outcome)]
        for name, outcome in outcomes.items()
    ]
    print(make_table(["camera", "frames", "experts", "merges", ""], rows))
    for name, outcome in outcomes.items():
        if outcome.get("refused"):
            print(f"{name} was not merged: {outcome['refused']}", file=sys.stderr)
    if not args.no_merge and merged.is_dir():
        print(f"reservoir: {merged}")
    print(f"all of it is in {args.out}")
    return 1 if failed else 0


def _names(streams: list[str]) -> list[str]:
    """Names of folders, none of which comes twice."""
    from ..footage.frames import open_frames

    names = [open_frames(stream).name for stream in streams]
    if "reservoir" in names:
        raise ReservoirError("a stream cannot be called reservoir: rename its folder or file")
    often, seen = Counter(names), Counter[str]()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(f"{name}_{seen[name]}" if often[name] > 1 else name)
    return unique


def _state_of(outcome: dict[str, Any]) -> str:
    return "failed" if "error" in outcome else "not merged" if outcome["refused"] else "done"


main = Verb(__doc__, add_options, run)
