"""Segment your own footage while the model adapts to it.

reservoir adapt                                    a drive through MiniCity, generated first
reservoir adapt drive.mp4                          the bundled model of street scenes
reservoir adapt drive.mp4 --model segformer_mit-b0_8xb1-160k_cityscapes-1024x1024
reservoir adapt frames/ --model CONFIG --weights FILE --start-from yesterday/reservoir
reservoir adapt 0                                  a camera; Ctrl-C or SIGTERM ends the run
reservoir adapt rtsp://HOST/PATH                   a network camera; connects again
reservoir adapt drive.mp4 --resume                 resume a killed run
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
from .options import FOOTAGE, option, shared, switch

if TYPE_CHECKING:  # mmseg takes seconds to import: only what runs a stream does
    from ..footage.footage_run import FootageRun
    from ..footage.frame_source import FrameResult

MINICITY = "minicity/segformer-tiny_tent_robust.py"
STREETS = "acdc/efficientvit-b0_align.py"
"""Default config for footage: the bundled model and method with the largest gain on real frames."""


def _run(args: argparse.Namespace) -> None:
    with _listener(args.serve) as listener:  # first, to report a busy port without delay
        footage = _open(args)
        with StopSignals(wake=footage.frames.stop) as signals, footage:
            if footage.count:
                print(f"{footage.folder}: resumed after {footage.count} frames")
            with closing(_with_progress(footage)) as results:
                if listener is None:
                    for _ in results:
                        if signals.caught:
                            break
                else:
                    from ..footage.footage_run import LiveFootage
                    from ..live.server import serve

                    serve(LiveFootage(footage, results), listener, footage.reservoir)
                    footage.save()  # includes actions of viewers after the last frame
            if not footage.complete:
                footage.save()
                print("stopped", file=sys.stderr)
                if not footage.count:
                    signals.obey()
                    raise KeyboardInterrupt
                _report(footage)


def _open(args: argparse.Namespace) -> FootageRun:
    from ..footage.footage_run import FootageRun
    from ..footage.frames import is_address, open_frames
    from ..footage.inferencer import ReservoirInferencer
    from ..seg.source_images import find_source_images

    inputs = _inputs(args.input)
    adaptation = {"source_images": find_source_images(args.source_images)}
    if args.model is not None:
        adaptation = {name: value for name, value in adaptation.items() if value is not None}
    elif inputs is not None:
        args.model = STREETS  # without source images: the bundled styles of Cityscapes
    else:
        args.model = MINICITY
        inputs, adaptation["source_images"] = _make_minicity()
    frames = open_frames(inputs, args.every)
    if args.model == STREETS:
        print(f"the model: the bundled EfficientViT-Seg-B0, {STREETS}", flush=True)
    inferencer = ReservoirInferencer(
        args.model,
        args.weights,
        args.start_from,
        adapt=not args.no_adapt,
        size=args.size,
        seed=args.seed,
        device=args.device,
        cfg_options=args.cfg_options,
        **adaptation,
    )
    constant = ["model", "start_from", "size", "seed", "no_adapt", "every"]
    constant += ["labels", "min_confidence", "confidence"]  # or a folder would mix two kinds
    identity = {name: getattr(args, name) for name in constant}
    if not is_address(inputs):  # an address may have a password; the stream's name has none
        identity["input"] = inputs
    return FootageRun(
        inferencer,
        frames,
        args.out or _default_folder(Path("work_dirs/adapt") / frames.name, args.resume),
        args.save_every,
        args.resume,
        identity,
        shown=args.overlay,
        labels=args.labels,
        min_confidence=args.min_confidence,
        confidence=args.confidence,
        segment=args.segment,
        codec=args.codec,
    )


def _inputs(words: list[str]) -> str | list[str] | None:
    """Return one or more inputs. Several images are sorted by the numbers in their names."""
    from ..footage.frames import is_image, natural_order

    if len(words) > 1 and all(map(is_image, words)):
        return [str(path) for path in natural_order(map(Path, words))]
    return words if len(words) > 1 else next(iter(words), None)


def _with_progress(footage: FootageRun) -> Generator[FrameResult, None, None]:
    """Yield the results of a run; show its progress, and a report at the end."""
    start, before, frames = time.monotonic(), footage.count, footage.frames
    with StreamProgress(frames.total, unit="frames", interval=5.0) as progress:
        progress.skip(before)
        for frame in footage:
            speed = f"{(footage.count - before) / (time.monotonic() - start):.1f} fps"
            if frames.dropped:
                speed += f", {frames.dropped} dropped"
            progress.advance(None, frames.name, expert=frame.expert, k=frame.k, score=speed)
            yield frame
    if footage.complete:
        if not footage.count:
            raise ReservoirError(f"not a single frame of {frames.name} could be read")
        _report(footage)


def _report(footage: FootageRun) -> None:
    frames = footage.frames
    if footage.inferencer.has_reservoir:
        print(f"reservoir: {footage.reservoir}")
    print(f"experts over time: {timeline(footage.experts())}")
    text = f"{footage.count} frames"
    for number, kind in ((frames.broken, "broken"), (frames.dropped, "dropped")):
        text += f", {number} {kind}" if number else ""
    if frames.gaps:
        text += f", {frames.gap_seconds:.0f} s lost in gaps ({frames.gaps})"
    print(f"{text}; all of it is in {footage.folder}", flush=True)


def _listener(port: int | None) -> AbstractContextManager[socket.socket | None]:
    """Return a context with the socket of the live page, or with None without a port."""
    if port is None:
        return nullcontext()
    try:
        from ..live.server import open_port
    except ModuleNotFoundError as error:
        raise ReservoirError(
            f'--serve needs {error.name}: pip install "mmseg_reservoir[live]"'
        ) from error
    return open_port(port)


def _make_minicity() -> tuple[str, dict[str, Any] | None]:
    from ..minicity import write_dataset
    from ..minicity.drive import write_drive
    from ..seg.source_images import find_source_images

    root = Path("work_dirs/minicity_drive")
    print(f"no model is named: a drive through MiniCity, made in {root} ...", flush=True)
    write_dataset(root / "source", counts={"clear": {"train": 100}})
    drive = str(write_drive(root / "drive.avi"))
    return drive, find_source_images(root / "source" / "rgb_anon" / "clear" / "train")


def _default_folder(folder: Path, resume: bool) -> Path:
    """Return the first unused numbered folder; with ``resume``, the last used one."""
    numbered = (folder.with_name(f"{folder.name}_{number}") for number in count(2))
    used = list(takewhile(Path.exists, chain([folder], numbered)))
    if resume and used:
        return used[-1]
    return folder.with_name(f"{folder.name}_{len(used) + 1}") if used else folder


main = Verb(
    __doc__,
    _run,
    option(
        "input",
        "folder, image, glob, video file, camera number, or address of a stream (rtsp://...); "
        "several are read one after the other",
        nargs="*",
    ),
    "--model",
    *FOOTAGE,
    shared("--out", help="write results here (default: work_dirs/adapt/INPUT, numbered)"),
    shared("--save-every", default=300),
    switch("--no-adapt", "only predict"),
    option(
        "--overlay",
        "draw the labels over the frames: as a video, as images, or not at all",
        choices=("video", "frames", "none"),
        default="video",
    ),
    option(
        "--codec CODE",
        "write the video with this codec, such as mp4v, which is fast but not played by browsers "
        "(default: VP9 or H.264)",
    ),
    option(
        "--segment N",
        "write N frames per video file; a saved state also ends a file",
        type=int,
        default=300,
    ),
    switch("--resume", "resume a killed run in --out (default: the newest folder of this input)"),
    option(
        "--min-confidence P",
        "write label 255 where the confidence is below P, 0 to 1",
        type=float,
        default=0.0,
    ),
    switch("--confidence", "write maps of confidence"),
    option(
        "--serve PORT",
        "show the run in the browser, on this machine only; 0 takes a free port (default: 8000)",
        nargs="?",
        type=int,
        const=8000,
    ),
)
