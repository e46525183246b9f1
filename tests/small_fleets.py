"""Cameras of a fleet around a small net, which need no model and no images; for tests."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from small_reservoirs import make_pipeline, stream

from mmseg_reservoir.fleet.camera_run import CameraRun
from mmseg_reservoir.snapshot import load_reservoir


@dataclass(frozen=True)
class SmallOrder:
    """A stream of looks.

    Args:
        folder: Where a line per batch goes.
        looks: What it meets.
        seed: Of its images.
        kind: Of the router.
        count: Batches of each look.
        k_max: Room for experts.
        die_at: Kills its process before this batch, once.
        fail: Raises instead.
    """

    folder: str
    looks: tuple[str, ...]
    seed: int = 0
    kind: str = "segment"
    count: int = 6
    k_max: int = 6
    die_at: int | None = None
    fail: bool = False

    def open(self, start_from: str | None, lines: int) -> SmallFootage:
        return SmallFootage(self, start_from, lines)


class SmallFootage:
    def __init__(self, order: SmallOrder, start_from: str | None, lines: int) -> None:
        self.order = order
        self.metadata: dict[str, Any] = {"options": {"seed": order.seed}}
        self.pipeline = make_pipeline(order.kind, care=True, k_max=order.k_max)
        if start_from is not None:
            load_reservoir(self.pipeline, start_from)
        self._path = Path(order.folder) / "lines.txt"
        kept = self._path.read_text().splitlines(keepends=True) if self._path.exists() else []
        self._path.write_text("".join(kept[:lines]))

    def frames(self, start: int) -> Iterator[tuple[int, Any]]:
        for index, frame in enumerate(stream(self.order.looks, self.order.seed, self.order.count)):
            if index >= start:
                self._perhaps_die(index)
                yield index, frame

    def _perhaps_die(self, index: int) -> None:
        died = Path(self.order.folder) / "died"
        if index == self.order.die_at and not died.exists():
            died.touch()
            if self.order.fail:
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGKILL)

    def adapt(self, frame: Any) -> None:
        look, images = frame
        outcome = self.pipeline.step(images, domain=look)
        line = {"expert": outcome.route.index, "sum": float(outcome.logits.sum())}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        pass


def camera(
    folder: Path, looks: tuple[str, ...], merge_every: int = 5, save_every: int = 4, **options: Any
) -> CameraRun:
    """A camera whose name is that of its folder."""
    start_from = options.pop("start_from", None)
    folder.mkdir(parents=True, exist_ok=True)
    order = SmallOrder(str(folder), looks, **options)
    return CameraRun(folder.name, str(folder), order, start_from, merge_every, save_every)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """What a camera wrote."""
    return [json.loads(line) for line in (folder / "lines.txt").read_text().splitlines()]
