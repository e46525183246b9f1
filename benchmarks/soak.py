"""A long run of a toy classifier: check that memory, experts and saved state stay bounded.

python benchmarks/soak.py --steps 20000 --out docs/images/soak.png

It runs TENT with the preset robust through the public `AdaptiveClassifier`. The stream has twelve
recurring styles that drift slowly, and some black frames. Every ``--every`` steps it records the
memory of the process, the number of experts, the size of a saved state, and the time of a step.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean

import torch
from torch import Tensor, nn

from mmseg_reservoir.cls import AdaptiveClassifier

STYLES, CLASSES, SIZE, BATCH = 12, 5, 6, 4
LENGTH = 25
"""Steps of a visit."""
Sample = dict[str, float]
"""Measured values after a step."""


def make_net() -> nn.Sequential:
    """Return a very small classifier, since its predictions do not matter."""
    torch.manual_seed(0)
    width = 16
    layers = [nn.Linear(3 * SIZE**2, width), nn.LayerNorm(width), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(width, CLASSES))


def style(images: Tensor) -> Tensor:
    """Return mean and log-variance of the colors, instead of VGG's channels."""
    colors = images.movedim(1, 0).flatten(1)
    return torch.cat([colors.mean(1), colors.var(1).add(1e-6).log()])


style.groups = [6]  # numbers of the only tap


def scenes(generator: torch.Generator) -> Tensor:
    """Return images of noise in [0, 1]."""
    return torch.rand(BATCH, 3, SIZE, SIZE, generator=generator)


def stream(steps: int, seed: int = 0) -> Iterator[Tensor]:
    """Yield batches; brightness, contrast and tint change with the visit and drift over time."""
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
    """Return the memory of a process in megabytes; NaN where the system does not report it."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return math.nan
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def state_bytes(model: AdaptiveClassifier) -> int:
    """Return the size of a file to resume from."""
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return len(file.getvalue())


def soak(steps: int, every: int, preset: str = "robust") -> list[Sample]:
    """Run some steps; return a sample after each ``every`` of them."""
    source = [scenes(torch.Generator().manual_seed(i)) for i in range(100)]
    reservoir = {"preset": preset, "style": style}
    model = AdaptiveClassifier(make_net(), "tent", reservoir, source)
    samples: list[Sample] = []
    start = time.perf_counter()
    for step, images in enumerate(stream(steps), start=1):
        logits = model(images)
        if not torch.isfinite(logits).all():
            raise RuntimeError(f"the prediction of step {step} is not finite")
        if step % every == 0 or step == steps:
            seconds = (time.perf_counter() - start) / (every if step % every == 0 else step % every)
            sample = {"step": step, "k": model.last.k, "ms": 1000 * seconds}
            samples.append(
                {**sample, "state_kb": state_bytes(model) / 1024, "memory_mb": resident()}
            )
            start = time.perf_counter()
    return samples


def growth(samples: Sequence[Sample], name: str) -> float:
    """Return the mean of the last fifth of the samples over that of the second; 1: no growth.

    The first fifth is left out, because experts are opened and caches fill.
    """
    fifth = max(1, len(samples) // 5)
    values = [sample[name] for sample in samples]
    before, end = mean(values[fifth : 2 * fifth]), mean(values[-fifth:])
    return end / before if before else math.inf


def print_growth(samples: Sequence[Sample], names: Iterable[str]) -> dict[str, float]:
    """Print and return the growth of some values."""
    ratios = {name: growth(samples, name) for name in names}
    for name, ratio in ratios.items():
        print(f"{name}: last fifth over second fifth {ratio:.3f}")
    return ratios


PANELS = {"k": "experts K", "state_kb": "saved state (KB)", "memory_mb": "memory (MB)"}


def plot(
    samples: Sequence[Sample], file: Path, panels: Mapping[str, str] = PANELS, xlabel: str = "step"
) -> None:
    """Draw some of the values over the steps, three panels in a row."""
    from matplotlib.figure import Figure

    rows = math.ceil(len(panels) / 3)
    figure = Figure(figsize=(9, 2.6 * rows), layout="constrained")
    grid = figure.subplots(rows, 3).flat
    for axes, (name, title) in zip(grid, panels.items(), strict=True):
        axes.plot([sample["step"] for sample in samples], [sample[name] for sample in samples])
        axes.set(
            title=title, xlabel=xlabel, ylim=(0, 1.15 * max(sample[name] for sample in samples))
        )
        axes.grid(alpha=0.3)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print and plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--every", type=int, default=200, help="steps between two samples")
    parser.add_argument("--out", type=Path, help="plot, with the numbers beside it as .json")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)  # faster for small tensors
    samples = soak(args.steps, args.every)
    for sample in samples[:: max(1, len(samples) // 10)]:
        print(", ".join(f"{name} {value:.4g}" for name, value in sample.items()))
    print_growth(samples, PANELS)
    if args.out is not None:
        plot(samples, args.out)
        args.out.with_suffix(".json").write_text(json.dumps(samples, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
