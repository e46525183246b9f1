"""Segment your own footage while the model adapts to it.

reservoir adapt                                    a drive through MiniCity, generated first
reservoir adapt drive.mp4 --model segformer_mit-b0_8xb1-160k_cityscapes-1024x1024
reservoir adapt frames/ --model CONFIG --weights FILE --start-from yesterday/reservoir
reservoir adapt 0 --model NAME                     a camera; Ctrl-C or SIGTERM ends the run
reservoir adapt rtsp://HOST/PATH --model NAME      a network camera; connects again
reservoir adapt drive.mp4 --model NAME --resume    resume a killed run
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
from collections.abc import Generator
from contextlib import AbstractContextManager, closing, nullcontext
from itertools import chain, count, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ReservoirError
from ..report.progress import StreamProgress
from ..report.routes import timeline
from ..runs.stop_signals import StopSignals
from .command_line import Verb
from .options import add_footage_options, share

if TYPE_CHECKING:  # mmseg takes seconds to import: only what runs a stream does
    from ..footage.footage_run import FootageRun
    from ..footage.inferencer import FrameResult

MINICITY = "minicity/segformer-tiny_tent_robust.py"
EXAMPLE = "segformer_mit-b0_8xb1-160k_cityscapes-1024x1024"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "input",
        nargs="*",
        help="folder, image, glob, video file, camera number, or address of a stream (rtsp://...); "
        "several are read one after the other",
    )
    share(parser, "--model")
    add_footage_options(parser)
    share(parser, "--out", help="write results here (default: work_dirs/adapt/INPUT, numbered)")
    share(parser, "--save-every", default=300)
    parser.add_argument("--no-adapt", action="store_true", help="only predict")
    parser.add_argument(
        "--overlay",
        choices=("video", "frames", "none"),
        default="video",
        help="draw the labels over the frames: as a video, as images, or not at all",
    )
    parser.add_argument(
        "--codec",
        metavar="CODE",
        help="write the video with this codec, such as mp4v, which is fast but not played by "
        "browsers (default: VP9 or H.264)",
    )
    parser.add_argument(
        "--segment",
        type=int,
        default=300,
        metavar="N",
        help="write N frames per video file; a saved state also ends a file",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="resume a killed run in --out (default: the newest folder of this input)",
    )
    parser.add_argument(
        "--min-confidence",
        type=float,
        default=0.0,
        metavar="P",
        help="write label 255 where the confidence is below P, 0 to 1",
    )
    parser.add_argument("--confidence", action="store_true", help="write maps of confidence")
    parser.add_argument(
        "--serve",
        nargs="?",
        type=int,
        const=8000,
        metavar="PORT",
        help="show the run in the browser, on this machine only; 0 takes a free port "
        "(default: 8000)",
    )


def _one_or_several(inputs: list[str]) -> str | list[str] | None:
    """Return the input, or several; images that a shell lists in the order of their numbers."""
    if len(inputs) < 2:
        return inputs[0] if inputs else None
    from ..footage.frames import is_image, natural_order

    if all(map(is_image, inputs)):
        return [str(path) for path in natural_order(map(Path, inputs))]
    return inputs


def run(args: argparse.Namespace) -> None:
    """Run the stream and report its results."""
    _check(args)
    args.input = _one_or_several(args.input)
    with _listener(args.serve) as listener:  # a busy port shows before anything is made
        from ..footage.footage_run import FootageRun
        from ..footage.frames import is_address, open_frames
        from ..footage.inferencer import ReservoirInferencer
        from ..seg.source_images import find_source_images

        source_images = find_source_images(args.source_images)
        if args.model is None:
            args.model, source_images = MINICITY, _minicity(args)
        frames = open_frames(args.input, args.every)
        out = args.out or _default_folder(Path("work_dirs/adapt") / frames.name, args.resume)
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
        same = ("model", "start_from", "size", "seed", "no_adapt")
        about = {name: getattr(args, name) for name in same}
        if not is_address(args.input):  # one may hold a password; the stream has its name
            about["input"] = args.input
        footage = FootageRun(
            inferencer,
            frames,
            out,
            save_every=args.save_every,
            resume=args.resume,
            about=about,
            shown=args.overlay,
            labels=args.labels,
            min_confidence=args.min_confidence,
            confidence=args.confidence,
            segment=args.segment,
            codec=args.codec,
        )
        with StopSignals(wake=frames.stop) as signals, footage:
            if footage.count:
                print(f"{out}: resumed after {footage.count} frames")
            with closing(_shown(footage)) as results:
                if listener is None:
                    for _ in results:
                        if signals.caught:
                            break
                else:
                    from ..footage.watched_stream import WatchedStream
                    from ..live.server import serve

                    stream = WatchedStream(inferencer, results, footage.writer, frames)
                    serve(stream, listener, footage.reservoir)
                    footage.save()  # what viewers did after the last frame, too
            if not footage.complete:
                footage.save()
                print("stopped", file=sys.stderr)
                if not footage.count:
                    signals.obey()
                    raise KeyboardInterrupt
                _report(footage)


def _check(args: argparse.Namespace) -> None:
    """Report mistakes before anything is imported."""
    if args.model is None and args.input:
        raise ReservoirError(
            "--model is required for your own footage: the bundled model is trained on MiniCity "
            f"only; give --model NAME of mmseg's zoo, such as {EXAMPLE}, or --model CONFIG "
            "--weights FILE"
        )


def _shown(run: FootageRun) -> Generator[FrameResult, None, None]:
    """Give the results of a run, show its progress, and report them at the end of the stream."""
    start, before, frames = time.monotonic(), run.count, run.frames
    with StreamProgress(frames.total, unit="frames", interval=5.0) as progress:
        progress.skip(before)
        for frame in run:
            fps = (run.count - before) / (time.monotonic() - start)
            told = f"{fps:.1f} fps" + (f", {frames.dropped} dropped" if frames.dropped else "")
            progress.advance(None, frames.name, expert=frame.expert, k=frame.k, score=told)
            yield frame
    if run.complete:
        if not run.count:
            raise ReservoirError(f"not a single frame of {frames.name} could be read")
        _report(run)


def _report(run: FootageRun) -> None:
    if run.inferencer.has_reservoir:
        print(f"reservoir: {run.reservoir}")
    print(f"experts over time: {timeline(run.experts())}")
    lost = {"broken": run.frames.broken, "dropped": run.frames.dropped}
    told = "".join(f", {number} {what}" for what, number in lost.items() if number)
    if run.frames.gaps:
        told += f", {run.frames.gap_seconds:.0f} s lost in gaps ({run.frames.gaps})"
    print(f"{run.count} frames{told}; all of it is in {run.folder}", flush=True)


def _listener(port: int | None) -> AbstractContextManager[socket.socket | None]:
    """Reserve the port of the live page, None without one."""
    if port is None:
        return nullcontext()
    try:
        from ..live.server import open_port
    except ModuleNotFoundError as error:
        raise ReservoirError(
            f'--serve needs {error.name}: pip install "mmseg_reservoir[live]"'
        ) from error
    return open_port(port)


def _minicity(args: argparse.Namespace) -> dict[str, Any]:
    """Make the drive that is shown where no model is named, and images of its source."""
    from ..minicity import write_dataset
    from ..minicity.drive import write_drive
    from ..seg.source_images import find_source_images

    root = Path("work_dirs/minicity_drive")
    print(f"no model is named: a drive through MiniCity, made in {root} ...", flush=True)
    write_dataset(root / "source", counts={"clear": {"train": 100}})
    args.input = str(write_drive(root / "drive.avi"))
    return find_source_images(root / "source" / "rgb_anon" / "clear" / "train")


def _default_folder(folder: Path, resume: bool) -> Path:
    """Return the first numbered folder that is free; to resume, the one before it."""
    numbered = (folder.with_name(f"{folder.name}_{number}") for number in count(2))
    taken = list(takewhile(Path.exists, chain([folder], numbered)))
    if resume and taken:
        return taken[-1]
    return folder.with_name(f"{folder.name}_{len(taken) + 1}") if taken else folder


main = Verb(__doc__, add_options, run)
