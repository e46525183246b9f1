"""A long run of a toy classifier: do memory, experts and saved state stay bounded?

python benchmarks/soak.py --steps 20000 --out docs/images/soak.png

TENT with the preset robust, through the public `AdaptiveClassifier`, on a stream without an end:
twelve styles that come back, drift slowly, and now and then a frame that is nothing. Every so many
steps it notes the memory of the process, the number of experts, the bytes of a saved state, and the
time of a step.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean

import torch
from torch import Tensor, nn

from mmseg_reservoir.cls import AdaptiveClassifier

STYLES, CLASSES, SIZE, BATCH = 12, 5, 6, 4
LENGTH = 25
"""Steps of a visit."""
Note = dict[str, float]
"""What is known after some step."""


def make_net() -> nn.Sequential:
    """A classifier as small as can be, since nothing is learned from its answers."""
    torch.manual_seed(0)
    width = 16
    layers = [nn.Linear(3 * SIZE**2, width), nn.LayerNorm(width), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(width, CLASSES))


def style(images: Tensor) -> Tensor:
    """Mean and log-variance of the colours, in the place of VGG's channels."""
    colours = images.movedim(1, 0).flatten(1)
    return torch.cat([colours.mean(1), colours.var(1).add(1e-6).log()])


style.groups = [6]  # as many numbers as there are of the one tap


def scenes(generator: torch.Generator) -> Tensor:
    """Images in [0, 1] of noise."""
    return torch.rand(BATCH, 3, SIZE, SIZE, generator=generator)


def stream(steps: int, seed: int = 0) -> Iterator[Tensor]:
    """Batches whose brightness, contrast and tint change with the visit, and drift over time."""
    generator = torch.Generator().manual_seed(seed)
    tints = 0.2 + 0.8 * torch.rand(STYLES, 3, 1, 1, generator=generator)
    for step in range(steps):
        style = (step // LENGTH) % STYLES
        drift = 0.1 * math.sin(2 * math.pi * step / 5000 + style)
        images = scenes(generator) * tints[style] * (0.3 + style / STYLES) + drift
        if step % 997 == 996:
            images = torch.zeros_like(images)  # a covered lens
        yield images.clamp(0, 1)


def resident(process: int | str = "self") -> float:
    """Megabytes of memory that a process holds now, where the system tells; else NaN."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return math.nan
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def state_bytes(model: AdaptiveClassifier) -> int:
    """The size of a file that the run could be resumed from."""
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return file.tell()


def soak(steps: int, every: int, preset: str = "robust") -> list[Note]:
    """Run so many steps; what was noted, every so many of them."""
    source = [scenes(torch.Generator().manual_seed(i)) for i in range(100)]
    reservoir = {"preset": preset, "style": style}
    model = AdaptiveClassifier(make_net(), "tent", reservoir, source)
    notes: list[Note] = []
    start = time.perf_counter()
    for step, images in enumerate(stream(steps), start=1):
        logits = model(images)
        if not torch.isfinite(logits).all():
            raise RuntimeError(f"the prediction of step {step} is not finite")
        if step % every == 0 or step == steps:
            seconds = (time.perf_counter() - start) / (every if step % every == 0 else step % every)
            note = {"step": step, "k": model.last.k, "ms": 1000 * seconds}
            notes.append({**note, "state_kb": state_bytes(model) / 1024, "memory_mb": resident()})
            start = time.perf_counter()
    return notes


def growth(notes: Sequence[Note], name: str) -> float:
    """The mean of the last fifth of the notes over that of the second: 1 for what stays as it is.

    The first fifth is the way up: experts open, caches fill.
    """
    fifth = max(1, len(notes) // 5)
    values = [note[name] for note in notes]
    before, end = mean(values[fifth : 2 * fifth]), mean(values[-fifth:])
    return end / before if before else math.inf


PANELS = {"k": "experts K", "state_kb": "saved state (KB)", "memory_mb": "memory (MB)"}


def plot(
    notes: Sequence[Note], file: Path, panels: Mapping[str, str] = PANELS, xlabel: str = "step"
) -> None:
    """Draw some of the noted values over the steps, three in a row."""
    from matplotlib.figure import Figure

    rows = math.ceil(len(panels) / 3)
    figure = Figure(figsize=(9, 2.6 * rows), layout="constrained")
    places = figure.subplots(rows, 3).flat
    for axes, (name, title) in zip(places, panels.items(), strict=True):
        axes.plot([note["step"] for note in notes], [note[name] for note in notes])
        axes.set(title=title, xlabel=xlabel, ylim=(0, 1.15 * max(note[name] for note in notes)))
        axes.grid(alpha=0.3)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print, plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--every", type=int, default=200, help="steps between two notes")
    parser.add_argument("--out", type=Path, help="a picture; the numbers go beside it, as .json")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)  # small tensors are faster so
    notes = soak(args.steps, args.every)
    for note in notes[:: max(1, len(notes) // 10)]:
        print(", ".join(f"{name} {value:.4g}" for name, value in note.items()))
    for name in ("k", "state_kb", "memory_mb"):
        print(f"{name}: last fifth over second fifth {growth(notes, name):.3f}")
    if args.out is not None:
        plot(notes, args.out)
        args.out.with_suffix(".json").write_text(json.dumps(notes, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
