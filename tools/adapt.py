"""Segment your own footage while the model adapts to it, without a label.

python tools/adapt.py                  a drive through MiniCity, made on the spot
python tools/adapt.py drive.mp4 --model segformer_mit-b0_8xb1-160k_cityscapes-1024x1024
python tools/adapt.py frames/ --model CONFIG --weights FILE --start-from yesterday/reservoir
python tools/adapt.py 0 --model NAME   the camera; Ctrl-C ends it well
python tools/adapt.py rtsp://HOST/PATH --model NAME      a network camera; connects again
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from mmengine.config import DictAction

import mmseg_reservoir.seg  # noqa: F401 (must come before mmseg)
from mmseg_reservoir.command_line import end_in_one_line, image_size, parse
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.minicity import write_dataset
from mmseg_reservoir.minicity.drive import write_drive
from mmseg_reservoir.report.progress import StreamProgress
from mmseg_reservoir.report.timeline import timeline
from mmseg_reservoir.seg.frame_source import FrameSource
from mmseg_reservoir.seg.frame_writer import FrameWriter
from mmseg_reservoir.seg.frames import is_image, natural_order, open_frames
from mmseg_reservoir.seg.inferencer import FrameResult, ReservoirInferencer
from mmseg_reservoir.seg.source_images import find_source_images
from mmseg_reservoir.seg.watched_stream import WatchedStream

MINICITY = "minicity/segformer-tiny_tent_robust.py"
EXAMPLE = "segformer_mit-b0_8xb1-160k_cityscapes-1024x1024"


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "input",
        nargs="*",
        help="folder, image, glob, video file, camera number, or address of a stream (rtsp://...); "
        "several are read one after the other",
    )
    parser.add_argument("--model", help="config file, or a name of mmseg's model zoo")
    parser.add_argument("--weights", help="default: those of the zoo, or load_from of the config")
    parser.add_argument("--start-from", metavar="FOLDER", help="a saved reservoir to go on with")
    parser.add_argument("--out", type=Path, help="default: work_dirs/adapt/INPUT, numbered")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take each N-th frame")
    parser.add_argument("--size", type=image_size, metavar="WxH", help="what the model sees")
    parser.add_argument("--no-adapt", action="store_true", help="only predict")
    parser.add_argument("--source-images", type=Path, metavar="FOLDER", help="for calibration")
    parser.add_argument("--overlay", choices=("video", "frames", "none"), default="video")
    parser.add_argument(
        "--codec",
        metavar="CODE",
        help="of the video, such as mp4v, which is quick to write and not played by browsers "
        "(default: VP9 or H.264)",
    )
    parser.add_argument("--segment", type=int, default=300, help="frames of a video file")
    parser.add_argument(
        "--save-every",
        type=int,
        default=300,
        metavar="N",
        help="save the reservoir each N frames, not only at the end",
    )
    parser.add_argument(
        "--labels",
        choices=("trainids", "labelids", "colours"),
        help="write labels, and the frames, in ACDC's folders: ready to train on",
    )
    parser.add_argument("--min-confidence", type=float, default=0.0, help="below it: label 255")
    parser.add_argument("--confidence", action="store_true", help="write maps of confidence")
    parser.add_argument(
        "--serve",
        nargs="?",
        type=int,
        const=8000,
        metavar="PORT",
        help="show it in the browser while it runs, on this machine alone (default port: 8000)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="default: a GPU, if there is one")
    parser.add_argument(
        "--cfg-options", nargs="+", action=DictAction, default={}, help="key=value ..."
    )
    args = parse(parser, argv)
    args.input = _one_or_several(args.input)
    return args


def _one_or_several(inputs: list[str]) -> str | list[str] | None:
    """Return the input, or several; images that a shell lists in the order of their numbers."""
    if len(inputs) < 2:
        return inputs[0] if inputs else None
    if all(map(is_image, inputs)):
        return [str(path) for path in natural_order(map(Path, inputs))]
    return inputs


def adapt(args: argparse.Namespace) -> None:
    """Run the stream and say what came of it."""
    source_images = find_source_images(args.source_images)
    if args.model is None:
        args.model, source_images = MINICITY, _minicity(args)
    if args.save_every < 1:
        raise ReservoirError(f"--save-every must be 1 frame or more, got {args.save_every}")
    frames = open_frames(args.input, args.every)
    out = args.out or _free_folder(Path("work_dirs/adapt") / frames.name)
    inferencer = ReservoirInferencer(
        args.model,
        args.weights,
        args.start_from,
        adapt=not args.no_adapt,
        size=args.size,
        seed=args.seed,
        device=args.device,
        cfg_options=args.cfg_options,
        **({} if source_images is None else {"source_images": source_images}),
    )
    writer = FrameWriter(
        out,
        frames.name,
        inferencer.dataset_meta["palette"],
        inferencer.dataset_meta["classes"],
        fps=frames.fps,
        shown=args.overlay,
        labels=args.labels,
        min_confidence=args.min_confidence,
        confidence=args.confidence,
        segment=args.segment,
        codec=args.codec,
    )
    experts: list[int] = []
    with writer:
        stream = _stream(inferencer, frames, writer, experts)
        if inferencer.has_reservoir:
            stream = _saving(stream, inferencer, out / "reservoir", args.save_every)
        try:
            if args.serve is None:
                deque(stream, maxlen=0)
            else:
                _serve(WatchedStream(inferencer, stream, writer), args.serve, out)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
    if not experts:
        raise ReservoirError(f"not a single frame of {frames.name} could be read")
    if inferencer.has_reservoir:
        print(f"reservoir: {inferencer.save(out / 'reservoir')}")
    print(f"experts over time: {timeline(experts)}")
    lost = {"broken": frames.broken, "dropped": frames.dropped}
    told = "".join(f", {number} {what}" for what, number in lost.items() if number)
    told += f", {frames.gap_seconds:.0f} s lost in gaps ({frames.gaps})" if frames.gaps else ""
    print(f"{len(experts)} frames{told}; all of it is in {out}")


def _stream(
    inferencer: ReservoirInferencer, frames: FrameSource, writer: FrameWriter, experts: list[int]
) -> Iterator[FrameResult]:
    """Segment and write all frames; notes the expert of each."""
    start = time.monotonic()
    with StreamProgress(frames.total, unit="frames", interval=5.0) as progress:
        for frame in inferencer(frames):
            writer.write(frame, **frames.losses())
            experts.append(frame.expert)
            fps = len(experts) / (time.monotonic() - start)
            told = f"{fps:.1f} fps" + (f", {frames.dropped} dropped" if frames.dropped else "")
            progress.advance(None, frames.name, expert=frame.expert, k=frame.k, score=told)
            yield frame


def _saving(
    stream: Iterator[FrameResult], inferencer: ReservoirInferencer, folder: Path, every: int
) -> Iterator[FrameResult]:
    """Save the reservoir now and then: a process that is killed loses no more than that."""
    for number, frame in enumerate(stream, start=1):
        if number % every == 0:
            inferencer.save(folder)
        yield frame


def _serve(stream: WatchedStream, port: int, out: Path) -> None:
    try:
        from mmseg_reservoir.live.server import serve
    except ModuleNotFoundError as error:
        raise ReservoirError(
            f'--serve needs {error.name}: pip install "mmseg_reservoir[live]"'
        ) from error
    serve(stream, port, out / "reservoir")


def _minicity(args: argparse.Namespace) -> dict[str, Any]:
    """Make the drive that is shown where no model is named, and images of its source."""
    if args.input is not None:
        raise ReservoirError(
            "which model? The one that comes with us knows MiniCity alone: give --model NAME of "
            f"mmseg's zoo, such as {EXAMPLE}, or --model CONFIG --weights FILE"
        )
    root = Path("work_dirs/minicity_drive")
    print(f"no model is named: a drive through MiniCity, made in {root} ...", flush=True)
    write_dataset(root / "source", counts={"clear": {"train": 100}})
    args.input = str(write_drive(root / "drive.avi"))
    return find_source_images(root / "source" / "rgb_anon" / "clear" / "train")


def _free_folder(folder: Path) -> Path:
    names = (folder.with_name(f"{folder.name}_{number}") for number in count(2))
    return folder if not folder.exists() else next(name for name in names if not name.exists())


def main(argv: list[str] | None = None) -> int:
    """Run; mistakes of the user end in one line and exit code 2."""
    return end_in_one_line(lambda: adapt(parse_args(argv)))


if __name__ == "__main__":
    sys.exit(main())
