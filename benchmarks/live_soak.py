"""A long run of `adapt.py --serve` with two viewers: check memory, threads and speed.

python benchmarks/live_soak.py --frames 20000 --minutes 60 --out docs/images/live_soak.png

The command runs in its own process, on a video with MiniCity's conditions in turn. Two viewers poll
the page like a browser. At random they pause, reset, save, and close their tab during a response.
The process is measured from outside. At the end it gets SIGTERM and must exit with 0, and all of
its output is read again.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks.common import ROOT
from benchmarks.soak import Sample, plot, print_growth, resident
from mmseg_reservoir.footage.frame_writer import count_frames
from mmseg_reservoir.minicity import write_dataset
from mmseg_reservoir.minicity.drive import render_drive
from mmseg_reservoir.report.tables import make_table
from mmseg_reservoir.runs.state_folder import StateFolder
from mmseg_reservoir.snapshot import read_folder

MODEL = "minicity/segformer-tiny_tent_robust"
CONDITIONS = ("clear", "fog", "night", "rain", "snow", "fog")
PANELS = {
    "memory_mb": "memory (MB)",
    "threads": "threads",
    "k": "experts K",
    "reservoir_kb": "reservoir (KB)",
    "fps": "frames per second",
    "cpu_ms": "CPU time per frame (ms)",
}
_POLL_SECONDS = 0.3
"""Time between two requests of a viewer, as in ``live.js``."""


def write_video(path: Path, frames: int, length: int) -> None:
    """Write a video that repeats a drive with ``length`` frames of each condition."""
    pictures = list(render_drive(length, CONDITIONS))
    size = (pictures[0].shape[1], pictures[0].shape[0])
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 10.0, size)
    for index in range(frames):
        writer.write(pictures[index % len(pictures)])
    writer.release()


@dataclass
class Page:
    """The page of a running command."""

    port: int
    token: str

    def get(self, path: str) -> bytes:
        """Return the response to a GET request."""
        return self._request("GET", path)

    def act(self, **action: Any) -> None:
        """Request an action."""
        self._request("POST", "/act", json.dumps(action), {"X-Token": self.token})

    def leave(self, path: str) -> None:
        """Send a request and close the tab during the response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path)
        connection.close()

    def _request(self, *request: Any) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(*request)
            answer = connection.getresponse()
            if answer.status >= 300:
                raise RuntimeError(f"{request[1]}: {answer.status} {answer.read()!r}")
            return answer.read()
        finally:
            connection.close()


@dataclass
class Viewer:
    """A viewer of the page in its own thread."""

    page: Page
    seed: int
    act_every: float
    """Seconds between two actions, on average."""
    counts: dict[str, int] = field(default_factory=dict)
    error: Exception | None = None

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._watch()
        except Exception as error:
            self.error = error  # the main thread raises it

    def _watch(self) -> None:
        seen, paused, layer = 0, False, "overlay"
        chance = _POLL_SECONDS / self.act_every
        while not self._stopped.wait(_POLL_SECONDS):
            state = json.loads(self.page.get(f"/state?since={seen}"))
            if state["frame"] > seen:
                seen = state["frame"]
                self.page.get(f"/frame/{layer}.jpg?n={seen}")
                self._count("pictures")
            if self._random.random() >= chance:
                continue
            action = "resume" if paused else self._random.choice(["pause", "reset", "save", "tab"])
            if action == "tab":
                self.page.leave(f"/frame/{layer}.jpg?n={seen}")
                layer, seen = self._random.choice(["image", "overlay"]), 0  # a new tab
            elif action == "reset":
                self.page.act(action="reset", expert=self._random.randrange(state["k"]))
            else:
                self.page.act(action=action)
                paused = action == "pause" or (paused and action != "resume")
            self._count(action)

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1


def measure(process: int, out: Path, page: Page) -> Sample:
    """Measure a running command from outside."""
    state = json.loads(page.get("/state?since=999999999"))
    if not state["running"]:
        raise RuntimeError(f"the stream has ended: {state['messages']}")
    proc = Path(f"/proc/{process}")
    (threads,) = re.findall(r"^Threads:\s+(\d+)$", (proc / "status").read_text(), re.MULTILINE)
    ticks = (proc / "stat").read_text().rpartition(")")[2].split()[11:13]
    return {
        "seconds": time.monotonic(),
        "step": state["frame"],
        "k": state["k"],
        "memory_mb": resident(process),
        "threads": int(threads),
        "files": len(list((proc / "fd").iterdir())),
        "reservoir_kb": _kilobytes(out / "reservoir"),
        "state_kb": _kilobytes(out / "state"),
        "cpu": sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"),
    }


def _kilobytes(folder: Path) -> float:
    """Return the size of a folder's files, which may be replaced meanwhile; 0 without files."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return total / 1024


def rates(samples: Sequence[Sample]) -> list[Sample]:
    """Add speed and CPU time per frame, each since the sample before."""
    return [
        {
            **now,
            "seconds": now["seconds"] - samples[0]["seconds"],
            "fps": (now["step"] - was["step"]) / (now["seconds"] - was["seconds"]),
            "cpu_ms": 1000 * (now["cpu"] - was["cpu"]) / max(1, now["step"] - was["step"]),
        }
        for was, now in pairwise(samples)
    ]


def check(out: Path, frames: int) -> dict[str, Any]:
    """Read all output; raise an error if any of it is missing or damaged."""
    lines = [json.loads(line) for line in (out / "stream.jsonl").read_text().splitlines()]
    if [line["index"] for line in lines] != list(range(len(lines))) or len(lines) < frames:
        raise RuntimeError(f"stream.jsonl has {len(lines)} lines after frame {frames}")
    partial = list(out.rglob("*partial*"))
    videos = sorted((out / "overlay").iterdir())
    shown = sum(map(count_frames, videos))
    if partial or shown != len(lines):
        raise RuntimeError(f"{shown} frames in videos, {len(lines)} lines, unfinished: {partial}")
    state = StateFolder(out / "state").newest()
    if state is None or state[1]["position"]["frames"] != len(lines):
        raise RuntimeError("the last state is not that of the last frame")
    experts = len(read_folder(out / "reservoir").experts)
    return {"frames": len(lines), "videos": len(videos), "experts": experts}


def soak(
    frames: int, minutes: float, every: float, act_every: float, length: int, root: Path
) -> tuple[list[Sample], dict[str, Any]]:
    """Run until a frame or a time; return samples, and counts of output and actions."""
    out, video, log = root / "out", root / "drive.mp4", root / "log.txt"
    write_dataset(root / "source", counts={"clear": {"train": 100}})
    write_video(video, frames + 1000, length)  # the video must not end first
    command = [sys.executable, "-u", ROOT / "tools" / "adapt.py", video, "--model", MODEL]
    command += ["--serve", "0", "--out", out, "--source-images", root / "source" / "rgb_anon"]
    samples: list[Sample] = []
    viewers: list[Viewer] = []
    with log.open("w") as output:
        process = subprocess.Popen(
            list(map(str, command)), cwd=root, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        address = _wait(lambda: re.search(r"127\.0\.0\.1:(\d+)/#(\S+)", log.read_text()), process)
        page = Page(int(address[1]), address[2])
        _wait(lambda: json.loads(page.get("/state"))["frame"], process)
        viewers += [Viewer(page, seed, act_every) for seed in range(2)]
        end, now = time.monotonic() + 60 * minutes, 0.0
        while now < end and (not samples or samples[-1]["step"] < frames):
            time.sleep(every)
            samples.append(measure(process.pid, out, page))
            now = time.monotonic()
            for viewer in viewers:
                if viewer.error is not None:
                    raise viewer.error
    finally:
        for viewer in viewers:
            viewer.stop()
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)
    if code:
        raise RuntimeError(f"the exit code is {code}: {log.read_text()[-2000:]}")
    done = {
        name: sum(viewer.counts.get(name, 0) for viewer in viewers)
        for name in ("pictures", "pause", "resume", "reset", "save", "tab")
    }
    return rates(samples), {**check(out, int(samples[-1]["step"])), **done}


def _wait(condition: Callable[[], Any], process: subprocess.Popen) -> Any:
    while not (result := condition()):
        if process.poll() is not None:
            raise RuntimeError(f"the command ended with {process.returncode}")
        time.sleep(0.2)
    return result


def table(samples: Sequence[Sample], rows: int = 8) -> str:
    """Return some of the samples as a Markdown table."""
    last = len(samples) - 1
    header = ["minutes", "frames", "memory (MB)", "threads", "files", "K", "reservoir (KB)", "fps"]
    cells = []
    for index in sorted({round(last * row / (rows - 1)) for row in range(rows)}):
        n = samples[index]
        cells.append([f"{n['seconds'] / 60:.1f}", n["step"], f"{n['memory_mb']:.1f}"])
        cells[-1] += [n["threads"], n["files"], n["k"]]
        cells[-1] += [f"{n['reservoir_kb']:.0f}", f"{n['fps']:.1f}"]
    return make_table(header, cells, text_columns=0, markdown=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print and plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=20_000, help="most frames (default: 20000)")
    parser.add_argument("--minutes", type=float, default=60.0, help="most minutes (default: 60)")
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two samples")
    parser.add_argument("--act-every", type=float, default=20.0, help="seconds between two actions")
    parser.add_argument("--length", type=int, default=14, help="frames of each condition")
    parser.add_argument("--keep", type=Path, help="keep the output in this folder")
    parser.add_argument("--out", type=Path, help="plot, with table and numbers beside it")
    args = parser.parse_args(argv)
    times = args.every, args.act_every
    with tempfile.TemporaryDirectory() as temporary:
        root = (args.keep or Path(temporary)).resolve()
        samples, counts = soak(args.frames, args.minutes, *times, args.length, root)
    text = table(samples)
    print(text)
    print(", ".join(f"{name} {value}" for name, value in counts.items()))
    ratios = print_growth(samples, (*PANELS, "state_kb", "files"))
    if args.out is not None:
        plot(samples, args.out, PANELS, xlabel="frame")
        args.out.with_suffix(".md").write_text(f"{text}\n")
        record = {"found": counts, "growth": ratios, "notes": samples}
        args.out.with_suffix(".json").write_text(json.dumps(record, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
