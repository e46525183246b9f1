"""Routing scores of presets on recorded styles, one frame (or batch) at a time.

    python benchmarks/routing.py --styles FILE.safetensors --preset stream --json OUT
    python benchmarks/routing.py --data minicity classification

Data sets (see style_streams.py):

- ``real``: recorded statistics of real frames, in the file ``--styles`` or the file that the
  environment variable RESERVOIR_STYLES names
- ``minicity``: single frames of the generated data set
- ``classification``: batches of 200 corrupted digits

The JSON is ``{preset: figures}``, or with several data sets ``{data set: {preset: figures}}``.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks import style_streams
from benchmarks.routing_scores import Step, mean, routing_scores
from benchmarks.stream_orders import ORDERS, Frame
from benchmarks.style_streams import CHANNELS, SOURCE, UNSEEN, select, stream_order, taps
from mmseg_reservoir.config.presets import PRESETS, with_preset
from mmseg_reservoir.config.reservoir_builder import ReservoirBuilder
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.registry import choose
from mmseg_reservoir.routing import Router
from mmseg_reservoir.style import Calibration

REAL = "RESERVOIR_STYLES"
"""Environment variable that names recorded statistics of real frames."""
DATA = ("real", "minicity", "classification")


def make_router(source: Tensor, options: Mapping[str, Any], seed: int = 0) -> Router:
    """Return the router of a preset, made by the code of a run."""
    style = with_preset(options)["style"]
    both = 2 if style["statistic"] == "mean_var" else 1
    groups = [both * CHANNELS[tap] for tap in taps(style)]
    return ReservoirBuilder(options, seed).build_router().fit(Calibration(source, groups=groups))


class Routers:
    """Routers of one preset, fitted to one source, for several seeds.

    A fit takes a second if styles are whitened. If nothing in the router is random, all seeds get
    copies of one router.
    """

    def __init__(self, source: Tensor, options: Mapping[str, Any]) -> None:
        self.source, self.options = source, options
        self._fitted: Router | None = None
        builder = ReservoirBuilder(options, seed=0)
        parts = (builder.router, *builder.components.values())
        self._is_random = any(part.accepts("seed") for part in parts)

    def make(self, seed: int) -> Router:
        """Return a router that has not routed any frame."""
        if self._is_random:
            return make_router(self.source, self.options, seed)
        if self._fitted is None:
            self._fitted = make_router(self.source, self.options)
        return copy.deepcopy(self._fitted)


def follow(router: Router, stream: Sequence[Frame]) -> list[Step]:
    """Route a stream."""
    steps = []
    for frame in stream:
        route = router.route(frame.style, may_open=True, domain=frame.condition)
        steps.append(Step(frame.condition, frame.visit, route.index, router.k))
    return steps


def false_openings(
    source: Tensor,
    options: Mapping[str, Any],
    frames: int,
    seed: int,
    unseen: Tensor | None = None,
    routers: Routers | None = None,
) -> int:
    """Count the domains that a router opens on source frames outside its calibration.

    Args:
        source: Styles of the source.
        options: Options of the reservoir.
        frames: Length of the stream, with frames drawn with replacement.
        seed: Seed of the draws.
        unseen: More styles of the source; None to calibrate on one half and draw from the other.
        routers: Routers that are fitted to the source. Defaults to None, a new router.
    """
    generator = torch.Generator().manual_seed(seed)
    if unseen is None:
        order = torch.randperm(len(source), generator=generator)
        source, unseen, routers = source[order[::2]], source[order[1::2]], None
    router = make_router(source, options, seed) if routers is None else routers.make(seed)
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
    conditions: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the scores of a preset: a list of runs per stream order, and the false openings.

    ``conditions`` is their order in the stream; None for the usual order (``stream_order``).
    """
    style = with_preset(preset)["style"]
    names = {key.split("/")[0].lower(): key.split("/")[0] for key in statistics}
    conditions = stream_order(names.values()) if conditions is None else conditions
    if SOURCE not in names or not conditions:
        raise ReservoirError(
            f"the styles hold {sorted(names.values())}: source and conditions are needed"
        )
    source = select(statistics, names[SOURCE], style)
    unseen = select(statistics, names[UNSEEN], style) if UNSEEN in names else None
    styles = {name: select(statistics, name, style) for name in conditions}
    figures: dict[str, Any] = {"conditions": [*conditions], "orders": {}}
    routers = Routers(source, preset)
    for order in orders:
        make = choose(order, ORDERS, "order")
        figures["orders"][order] = []
        for seed in range(seeds):
            stream = make(styles, rounds, torch.Generator().manual_seed(seed))
            steps = follow(routers.make(seed), stream)
            figures["orders"][order].append(routing_scores(steps))
    if source_frames:
        figures["false_openings"] = [
            false_openings(source, preset, source_frames, seed, unseen, routers)
            for seed in range(seeds)
        ]
    return figures


def parts_of(
    figures: tuple[Mapping[str, Tensor], Mapping[str, Any]],
    args: argparse.Namespace,
    conditions: Sequence[str] | None,
    pool: Executor,
) -> list[Future]:
    """Start :func:`benchmark` in parallel parts: each stream order, and the source alone."""
    orders: list[list[str]] = [
        *([order] for order in args.orders),
        *([[]] if args.source_frames else []),
    ]
    return [
        pool.submit(
            benchmark,
            *figures,
            part,
            args.rounds,
            args.seeds,
            0 if part else args.source_frames,
            conditions,
        )
        for part in orders
    ]


def join(parts: Sequence[Future]) -> dict[str, Any]:
    """Return the merged figures of all parts."""
    results = [part.result() for part in parts]
    orders = {order: runs for part in results for order, runs in part["orders"].items()}
    return {name: value for part in results for name, value in part.items()} | {"orders": orders}


def describe(preset: str, figures: Mapping[str, Any]) -> str:
    """Return lines to print: means over the frame orders, and the range of K and NMI."""
    lines = []
    for order, runs in figures["orders"].items():
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
    if "false_openings" in figures:
        lines.append(f"{preset:15s} source only: opened {figures['false_openings']}")
    return "\n".join(lines)


def routing_options(preset: str) -> str:
    """Return the options of a preset that determine routes. Presets with equal ones route alike."""
    options = with_preset(preset)
    groups = ("k_max", "style", "memory", "clustering", "space", "router")
    return json.dumps({name: options.get(name) for name in groups}, sort_keys=True)


def load(data: str, styles: Path | None, share: float | None = None) -> style_streams.Recorded:
    """Load the styles of a data set and print a description."""
    if data == "real":
        print(f"real: recorded styles of single frames, {styles}", flush=True)
        return style_streams.read(styles)
    print(f"{data}: encoded by the shipped VGG-19 (minutes, the first time)", flush=True)
    make = {"minicity": style_streams.minicity, "classification": style_streams.classification}
    return make[data]("shipped") if share is None else make[data]("shipped", size=share)


def workers(count: int) -> Executor:
    """Return processes with one thread each; for one, a thread of this process."""
    if count == 1:
        return ThreadPoolExecutor(1)
    return ProcessPoolExecutor(count, get_context("spawn"), torch.set_num_threads, (1,))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--styles", type=Path, help=f"recorded statistics of real frames ({REAL})")
    parser.add_argument("--data", nargs="+", choices=DATA, help="default: all, or --styles alone")
    parser.add_argument(
        "--preset", nargs="+", default=["published", "robust"], choices=sorted(PRESETS)
    )
    parser.add_argument("--orders", nargs="+", default=[*ORDERS], choices=[*ORDERS])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=2, help="random frame orders")
    parser.add_argument("--source-frames", type=int, default=500, help="0: no source-only stream")
    parser.add_argument(
        "--style-size", type=float, help="scale images by this factor before encoding"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    args = parser.parse_args(arguments)
    styles = args.styles or Path(os.environ.get(REAL) or os.devnull)
    data = args.data or (["real"] if args.styles else [*DATA])
    if args.style_size is not None:
        if args.styles or "real" in (args.data or []):
            parser.error("recorded styles have a fixed size: leave out --style-size")
        data = [name for name in data if name != "real"]
    elif not styles.is_file():
        if args.styles or "real" in (args.data or []):
            parser.error(f"no file {styles}: give recorded statistics by --styles or in {REAL}")
        data = [name for name in data if name != "real"]
    torch.set_num_threads(1)  # vectors of some hundred numbers: threads would wait for each other
    results: dict[str, dict[str, Any]] = {}
    with workers(args.jobs) as pool:
        for name in data:
            recorded = load(name, styles, args.style_size)
            jobs = {}
            for preset in args.preset:
                alike = routing_options(preset)
                if alike not in jobs:
                    figures = (recorded.statistics, {"preset": preset})
                    jobs[alike] = parts_of(figures, args, recorded.conditions, pool)
            results[name] = {}
            for preset in args.preset:
                results[name][preset] = join(jobs[routing_options(preset)])
                print(describe(preset, results[name][preset]), flush=True)
    if args.json:
        figures = results[data[0]] if len(data) == 1 else results
        args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
