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
from .options import FOOTAGE, option, shared, switch

if TYPE_CHECKING:
    from ..fleet.camera_run import CameraRun


def make_cameras(args: argparse.Namespace) -> list[CameraRun]:
    """Return a camera with a separate folder for every stream."""
    from ..fleet.camera_run import CameraRun
    from ..footage.fleet_footage import InferencerOrder
    from ..seg.source_images import find_source_images

    source_images = find_source_images(args.source_images)
    options: dict[str, Any] = {
        name: getattr(args, name) for name in ("weights", "size", "seed", "device", "cfg_options")
    }
    if source_images is not None:
        options["source_images"] = source_images
    written = {"shown": "none", "labels": args.labels}
    cameras = []
    for name, stream in zip(_names(args.streams), args.streams, strict=True):
        folder = (args.out / name).resolve()
        order = InferencerOrder(stream, folder, args.model, options, args.every, written)
        every = args.merge_every, args.save_every
        cameras.append(CameraRun(name, folder, order, args.start_from, *every))
    return cameras


def _run(args: argparse.Namespace) -> int:
    from ..fleet.camera_fleet import run_fleet

    cameras = make_cameras(args)
    merged = args.out / "reservoir"
    with ray_session(args.ray, args.jobs) as ray:
        options = not args.no_merge, args.restarts, args.cpus, partial(print, flush=True)
        outcomes = run_fleet(ray, cameras, merged, *options)
    columns = ("frames", "k", "exchanges")
    rows = []
    for name, outcome in outcomes.items():
        state = "failed" if "error" in outcome else "not merged" if outcome["refused"] else "done"
        rows.append([name, *(outcome.get(column, "-") for column in columns), state])
    print(make_table(["camera", "frames", "experts", "merges", ""], rows))
    for name, outcome in outcomes.items():
        if outcome.get("refused"):
            print(f"{name} was not merged: {outcome['refused']}", file=sys.stderr)
    if not args.no_merge and merged.is_dir():
        print(f"reservoir: {merged}")
    print(f"all of it is in {args.out}")
    return int(any("error" in outcome for outcome in outcomes.values()))


def _names(streams: list[str]) -> list[str]:
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


main = Verb(
    __doc__,
    _run,
    option("streams", "one per camera: folder, glob, video file or camera number", nargs="+"),
    shared("--model", required=True),
    *FOOTAGE,
    shared("--out", default=Path("work_dirs/fleet")),
    shared("--save-every", default=50),
    option(
        "--merge-every N",
        "merge the experts of a camera with those of all every N frames",
        type=int,
        default=100,
    ),
    switch("--no-merge", "keep the cameras apart"),
    option("--restarts N", "restart a camera after a crash up to N times", type=int, default=3),
    option("--cpus N", "reserve N cores for each camera", type=float, default=1.0),
    *("--ray", "--jobs"),
)
