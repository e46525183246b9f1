"""Experts of another camera for conditions that are new to a camera, on MiniCity.

    python benchmarks/fleet.py --draws 1 2 3

Each draw has two cameras with different MiniCities (other scenes, other weather), 16 frames of each
condition. The first camera sees all conditions and shares its experts. The second camera begins in
clear air, shares its experts, and then sees the conditions for the first time. Without the fleet
it sees them twice. The table compares mIoU on the same frames: its first visit with merging, its
first visit without, and its second visit without. Cameras run one after the other in this process,
so that the result does not depend on their speed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import cv2
import numpy as np

import mmseg_reservoir.seg  # noqa: F401 (must come before mmseg)
from mmseg_reservoir.fleet.camera_run import CameraRun
from mmseg_reservoir.fleet.merging_point import MergingPoint
from mmseg_reservoir.footage.fleet_footage import InferencerOrder
from mmseg_reservoir.io.files import write_text
from mmseg_reservoir.minicity import write_dataset
from mmseg_reservoir.minicity.frame import render_frame
from mmseg_reservoir.report.tables import make_table

CONDITIONS = ("fog", "night", "rain", "snow")
FRAMES = 16
CLASSES = 19
OTHER = 1000
"""Difference between the seeds of the two cameras' MiniCities."""


def write_footage(folder: Path, parts: Sequence[str], seed: int) -> Path:
    """Write a folder of frames, part by part, and labels beside it; keep an existing folder."""
    labels = folder.with_name(f"{folder.name}_labels")
    if folder.is_dir():
        return folder
    shutil.rmtree(labels, ignore_errors=True)
    partial = folder.with_name(f"{folder.name}_partial")
    for path in (partial, labels):
        path.mkdir(parents=True, exist_ok=True)
    for number, condition in enumerate(parts):
        for index in range(FRAMES):
            frame = render_frame(condition, "train", index, seed)
            name = f"{number}_{condition}_{index:03d}.png"
            cv2.imwrite(str(partial / name), frame.rgb[..., ::-1])
            cv2.imwrite(str(labels / name), frame.label)
    partial.rename(folder)
    return folder


def run(footage: Path, out: Path, source: Path, model: str, point: MergingPoint | None) -> None:
    """Run one camera unless it is finished."""
    options = {
        "source_images": {"data_root": str(source), "img_suffix": "_rgb_anon.png"},
        "device": "cpu",
    }
    written = {"shown": "none", "labels": "trainids"}
    order = InferencerOrder(str(footage), out, model, options, written=written)
    camera = CameraRun(out.name, out, order, merge_every=FRAMES, save_every=4 * FRAMES)
    camera.run(None if point is None else point.exchange)


def score(footage: Path, out: Path, part: int, condition: str) -> float:
    """Return the mIoU of one part of a stream, over the classes in it."""
    confusion = np.zeros((CLASSES, CLASSES), dtype=np.int64)
    labels = footage.with_name(f"{footage.name}_labels")
    for index in range(FRAMES):
        stem = f"{part}_{condition}_{index:03d}"
        path = out / f"gt/footage/train/{footage.name}/{stem}_gt_labelTrainIds.png"
        predicted = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        true = cv2.imread(str(labels / f"{stem}.png"), cv2.IMREAD_UNCHANGED)
        valid = true < CLASSES
        pairs = CLASSES * true[valid].astype(np.int64) + predicted[valid]
        confusion += np.bincount(pairs, minlength=CLASSES**2).reshape(CLASSES, CLASSES)
    right = confusion.diagonal()
    union = confusion.sum(axis=0) + confusion.sum(axis=1) - right
    return float(100 * np.mean(right[union > 0] / union[union > 0]))


def draw(seed: int, out: Path, model: str) -> dict[str, dict[str, float]]:
    """Return the scores of one draw by condition."""
    folder = out / f"draw{seed}"
    write_dataset(folder / "source", seed, {"clear": {"train": 100}})
    source = folder / "source/rgb_anon/clear/train"
    own = write_footage(folder / "own", ("clear", *CONDITIONS, *CONDITIONS), seed)
    first = write_footage(folder / "first", ("clear", *CONDITIONS), seed)
    other = write_footage(folder / "other", ("clear", *CONDITIONS), seed + OTHER)
    run(own, folder / "alone", source, model, None)
    point = MergingPoint(folder / "reservoir")
    run(other, folder / "before", source, model, point)
    run(first, folder / "after", source, model, point)
    return {
        condition: {
            "first, merged": score(first, folder / "after", part, condition),
            "first, alone": score(own, folder / "alone", part, condition),
            "second, alone": score(own, folder / "alone", part + len(CONDITIONS), condition),
        }
        for part, condition in enumerate(CONDITIONS, start=1)
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run all draws and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--model", default="minicity/segformer-tiny_tent_robust.py")
    parser.add_argument("--out", type=Path, default=Path("work_dirs/fleet_benchmark"))
    args = parser.parse_args(argv)
    scores = {seed: draw(seed, args.out.resolve(), args.model) for seed in args.draws}
    rows = []
    for seed, by_condition in scores.items():
        by_condition["mean"] = {
            kind: mean(by_condition[c][kind] for c in CONDITIONS) for kind in by_condition["fog"]
        }
        for condition, by_kind in by_condition.items():
            difference = by_kind["first, merged"] - by_kind["second, alone"]
            cells = [f"{value:.2f}" for value in by_kind.values()]
            rows.append([f"{seed} {condition}", *cells, f"{difference:+.2f}"])
    header = ["draw", *scores[args.draws[0]]["fog"], "merged - second"]
    print(make_table(header, rows, markdown=True))
    write_text(args.out / "fleet.json", json.dumps(scores, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
