"""How well a preset routes recorded styles, one frame at a time.

    python benchmarks/routing.py --styles FILE.safetensors --preset stream --json OUT

The file holds ``{condition}/mean`` and ``{condition}/logvar`` for the source and any number of
conditions; the columns are the channels of VGG-19's taps 2, 5, 7, 10, 12, 14, 16 side by side.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from mmseg_reservoir.core import Calibration, Router
from mmseg_reservoir.core.style import TAP_SETS
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.options import choose
from mmseg_reservoir.presets import PRESETS, build_router, with_preset
from mmseg_reservoir.report.routing import Step, mean, measure

CHANNELS = {2: 64, 5: 128, 7: 128, 10: 256, 12: 256, 14: 256, 16: 256}
FADE = 6
"""Frames of a slow fade between two conditions."""


class Frame(NamedTuple):
    """One frame of a stream: its style, condition and visit (round)."""

    style: Tensor
    condition: str
    visit: int


def select(statistics: Mapping[str, Tensor], name: str, style: Mapping[str, Any]) -> Tensor:
    """Style vectors ``(n, d)`` of one condition, as the style encoder would deliver them."""
    parts = choose(
        style["statistic"],
        {"logvar": ["logvar"], "mean": ["mean"], "mean_var": ["mean", "logvar"]},
        "recorded statistic",
    )
    blocks = {part: statistics[f"{name}/{part}"].split([*CHANNELS.values()], 1) for part in parts}
    order = [*CHANNELS]
    return torch.cat([blocks[p][order.index(tap)] for tap in _taps(style) for p in parts], dim=1)


def _taps(style: Mapping[str, Any]) -> Sequence[int]:
    return TAP_SETS[style["taps"]] if isinstance(style["taps"], str) else style["taps"]


def make_router(source: Tensor, options: Mapping[str, Any], seed: int = 0) -> Router:
    """The router of a preset, by the code that a run uses."""
    options = dict(options)
    style, calibration = options.pop("style"), options.pop("calibration", {})
    options.pop("pipeline")
    both = 2 if style["statistic"] == "mean_var" else 1
    groups = [both * CHANNELS[tap] for tap in _taps(style)]
    quantile = calibration.get("quantile", 0.999)
    return build_router(Calibration(source), groups, seed, quantile=quantile, **options)


def visits(styles: Mapping[str, Tensor], rounds: int, generator: torch.Generator) -> list[Frame]:
    """The conditions one after the other, the frames of each visit in a random order."""
    return [
        Frame(frames[i], condition, visit)
        for visit in range(rounds)
        for condition, frames in styles.items()
        for i in torch.randperm(len(frames), generator=generator)
    ]


def backwards(styles: Mapping[str, Tensor], rounds: int, generator: torch.Generator) -> list[Frame]:
    """The conditions in reversed order."""
    return visits(dict(reversed(styles.items())), rounds, generator)


def mixed(styles: Mapping[str, Tensor], rounds: int, generator: torch.Generator) -> list[Frame]:
    """All frames of a round in a random order (CDC)."""
    stream = []
    for visit in range(rounds):
        frames = [frame._replace(visit=visit) for frame in visits(styles, 1, generator)]
        stream += [frames[i] for i in torch.randperm(len(frames), generator=generator)]
    return stream


def fades(styles: Mapping[str, Tensor], rounds: int, generator: torch.Generator) -> list[Frame]:
    """As :func:`visits`, with frames in between whose statistics are blended."""
    stream: list[Frame] = []
    for frame in visits(styles, rounds, generator):
        if stream and stream[-1].condition != frame.condition:
            last = stream[-1]
            for i in range(1, FADE + 1):
                share = i / (FADE + 1)
                near = last if share < 0.5 else frame
                stream.append(near._replace(style=torch.lerp(last.style, frame.style, share)))
        stream.append(frame)
    return stream


ORDERS: dict[str, Callable[[Mapping[str, Tensor], int, torch.Generator], list[Frame]]] = {
    "given": visits,
    "reversed": backwards,
    "mixed": mixed,
    "fades": fades,
}


def follow(router: Router, stream: Sequence[Frame]) -> list[Step]:
    """Send a stream through a router."""
    steps = []
    for frame in stream:
        route = router.route(frame.style, may_open=True, domain=frame.condition)
        steps.append(Step(frame.condition, frame.visit, route.index, router.k))
    return steps


def false_openings(source: Tensor, options: Mapping[str, Any], frames: int, seed: int) -> int:
    """Domains opened on a stream of source frames, by a router calibrated on the other half."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(source), generator=generator)
    known, unseen = source[order[::2]], source[order[1::2]]
    router = make_router(known, options, seed)
    for i in torch.randint(len(unseen), (frames,), generator=generator):
        router.route(unseen[i], may_open=True, domain=None)
    return router.k - 1


def benchmark(
    statistics: Mapping[str, Tensor],
    preset: Mapping[str, Any],
    orders: Sequence[str] = ("given",),
    rounds: int = 10,
    seeds: int = 5,
    source_frames: int = 2000,
) -> dict[str, Any]:
    """One preset on recorded statistics: a list of runs per order, and the false openings."""
    options = with_preset(preset)
    names = dict.fromkeys(key.split("/")[0] for key in sorted(statistics))
    styles = {name: select(statistics, name, options["style"]) for name in names}
    if "source" not in styles or len(styles) < 2:
        raise ReservoirError(f"the styles hold {list(styles)}: source and conditions are needed")
    source = styles.pop("source")
    found: dict[str, Any] = {"orders": {}}
    for order in orders:
        make = choose(order, ORDERS, "order")
        found["orders"][order] = []
        for seed in range(seeds):
            stream = make(styles, rounds, torch.Generator().manual_seed(seed))
            steps = follow(make_router(source, options, seed), stream)
            found["orders"][order].append(measure(steps))
    if source_frames:
        found["false_openings"] = [
            false_openings(source, options, source_frames, seed) for seed in range(seeds)
        ]
    return found


def describe(preset: str, found: Mapping[str, Any]) -> str:
    """A few lines for people: means over the frame orders, and the range of K and NMI."""
    lines = []
    for order, runs in found["orders"].items():
        cells = [
            f"{preset:15s} {order:9s} K {min(r['k'] for r in runs)}-{max(r['k'] for r in runs)}"
        ]
        cells.append(f"NMI {min(r['nmi'] for r in runs):.2f}-{max(r['nmi'] for r in runs):.2f}")
        for name in ("purity", "nmi", "recall", "recall_strict", "delay_first", "delay_return"):
            values = [run[name] for run in runs if run[name] is not None]
            cells.append(f"{name} {mean(values):.2f}" if values else f"{name} -")
        leaks = {c: mean([run["leak"][c] for run in runs]) for c in runs[0]["leak"]}
        cells.append("leak " + " ".join(f"{c} {value:.2f}" for c, value in leaks.items()))
        lines.append("  ".join(cells))
    if "false_openings" in found:
        lines.append(f"{preset:15s} source only: opened {found['false_openings']}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    root = Path(__file__).parents[1]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    dev = root.parent / "shared/styles/real_styles_dev.safetensors"
    parser.add_argument("--styles", type=Path, default=dev)
    parser.add_argument("--preset", nargs="+", default=sorted(PRESETS), choices=sorted(PRESETS))
    parser.add_argument("--orders", nargs="+", default=[*ORDERS], choices=[*ORDERS])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5, help="random frame orders")
    parser.add_argument("--source-frames", type=int, default=2000, help="0: no source-only stream")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    args = parser.parse_args(arguments)
    if not args.styles.is_file():
        parser.error(f"no file {args.styles}: give recorded statistics by --styles")
    statistics = load_file(args.styles)
    results = {}
    for preset in args.preset:
        results[preset] = benchmark(
            statistics,
            {"preset": preset},
            args.orders,
            args.rounds,
            args.seeds,
            args.source_frames,
        )
        print(describe(preset, results[preset]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
