"""Segment the footage of many cameras; what one of them learns serves all.

python tools/fleet.py north/ south.mp4 'east/*.png' --model CONFIG --merge-every 200
python tools/fleet.py north/ south.mp4 --model CONFIG --start-from yesterday/reservoir
python tools/fleet.py cameras/*/ --model CONFIG --ray auto    on the cluster of this machine

The same command again goes on with what was killed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmseg_reservoir.cli.command_line import KeyValue, image_size, parse, run_cli
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.fleet.ray_session import ray_session
from mmseg_reservoir.report.tables import make_table

if TYPE_CHECKING:
    from mmseg_reservoir.fleet.camera_run import CameraRun


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("streams", nargs="+", help="folders, globs, video files, camera numbers")
    parser.add_argument("--model", required=True, help="config file, or a name of mmseg's zoo")
    parser.add_argument("--weights", help="default: those of the zoo, or load_from of the config")
    parser.add_argument("--start-from", metavar="FOLDER", help="the reservoir that all begin with")
    parser.add_argument("--out", type=Path, default=Path("work_dirs/fleet"))
    parser.add_argument(
        "--merge-every", type=int, default=100, metavar="N", help="images between two merges"
    )
    parser.add_argument("--no-merge", action="store_true", help="every camera on its own")
    parser.add_argument(
        "--save-every", type=int, default=50, metavar="N", help="images between two states"
    )
    parser.add_argument("--restarts", type=int, default=3, help="of an actor that dies")
    parser.add_argument("--ray", metavar="ADDRESS", help="a cluster (default: this machine)")
    parser.add_argument("--jobs", type=int, help="cores of this machine to use (default: all)")
    parser.add_argument("--cpus", type=float, default=1.0, help="cores for each camera")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take each N-th frame")
    parser.add_argument("--size", type=image_size, metavar="WxH", help="what the model sees")
    parser.add_argument("--source-images", type=Path, metavar="FOLDER", help="for calibration")
    parser.add_argument("--labels", choices=("trainids", "labelids", "colours"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="default: a GPU, if there is one")
    parser.add_argument(
        "--cfg-options", nargs="+", action=KeyValue, default={}, help="key=value ..."
    )
    return parse(parser, argv)


def make_cameras(args: argparse.Namespace) -> list[CameraRun]:
    """A camera for every stream, each with a folder of its own."""
    from mmseg_reservoir.fleet.camera_run import CameraRun
    from mmseg_reservoir.footage.fleet_footage import InferencerOrder
    from mmseg_reservoir.seg.source_images import find_source_images

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


def fleet(args: argparse.Namespace) -> int:
    """Run all streams and say what came of them; returns how many failed."""
    from mmseg_reservoir.fleet.camera_fleet import run_fleet

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
    return len(failed)


def _names(streams: list[str]) -> list[str]:
    """Names of folders, none of which comes twice."""
    from mmseg_reservoir.footage.frames import open_frames

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


def main(argv: list[str] | None = None) -> int:
    """Run; mistakes of the user end in one line and exit code 2, failed cameras in 1."""
    return run_cli(lambda: min(fleet(parse_args(argv)), 1))


if __name__ == "__main__":
    sys.exit(main())
