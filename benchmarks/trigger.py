"""Update triggers on MiniCity: mIoU against throughput.

    python benchmarks/trigger.py --seeds 1 2 3                  # all triggers, TENT and BECoTTA
    python benchmarks/trigger.py --seeds 4 --triggers off every2 settled --methods tent

Each seed has its own MiniCity (see benchmarks/minicity.py), on which updates are counted. The
throughput is computed from these counts and the measured stages of a step of SegFormer-B0 at 256 x
512. Runs in OUT are not repeated. Another --style-size needs another OUT.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.hub import get_config
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import MODELS, init_default_scope
from mmseg.registry import DATASETS
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks.common import ROOT
from benchmarks.minicity import CONFIGS, COUNTS
from mmseg_reservoir.config.builder import SEGMENTATION, RunBuilder, TaskContext
from mmseg_reservoir.config.presets import STREAM
from mmseg_reservoir.config.schema import pick
from mmseg_reservoir.core.pipeline import AdaptationPipeline
from mmseg_reservoir.core.state import tensor_bytes
from mmseg_reservoir.io.files import write_text
from mmseg_reservoir.minicity import write_dataset
from mmseg_reservoir.report.tables import make_table
from mmseg_reservoir.runs.record import strict_json
from mmseg_reservoir.seg.forward import segmentation_forward
from mmseg_reservoir.seg.hooks.adaptation_hook import make_plan
from mmseg_reservoir.seg.metric import VisitIoUMetric
from mmseg_reservoir.seg.model_loading import load_model
from mmseg_reservoir.seg.segmentor import AdaptiveSegmentor
from mmseg_reservoir.seg.source_images import context_of, preprocessor_range

CONDITIONS = ("fog", "night", "rain", "snow")
NEVER = dict(type="first_visit")
"""A trigger that never updates at a second visit."""
TRIGGERS: dict[str, dict[str, Any] | None] = {
    "off": None,
    "every2": dict(type="every", n=2),
    "every4": dict(type="every", n=4),
    "every8": dict(type="every", n=8),
    "first_visit": dict(type="first_visit"),
    "settled": dict(type="settled"),
}


class Draw:
    """One MiniCity in memory, with what its runs share: frames, styles, calibration, margin.

    Args:
        seed: Seed of the scenes and of the runs.
        folder: Folder of its files.
        style_size: Scale of a frame for its style. Defaults to None, that of the preset.
    """

    def __init__(self, seed: int, folder: Path, style_size: float | None = None) -> None:
        self.seed, self.folder, self.style_size = seed, folder, style_size
        write_dataset(folder, seed, COUNTS)
        self.styles: dict[int, Tensor] = {}
        self.source: dict[str, Any] = {}
        self.frames: dict[str, list[dict]] = {}

    def run(self, method: str, trigger: Mapping[str, Any] | None, rounds: int) -> dict[str, Any]:
        """Run one stream; return mIoU by round and the counts of updates, probes and alarms."""
        cfg = self._config(method, trigger)
        model = load_model(cfg, cfg.load_from, "cpu")
        context = context_of(cfg, model)
        plan = make_plan(cfg, self.seed)
        pipeline = plan.assemble(context)
        calibration = plan.calibrate(pipeline, context)
        self.source = {"calibration": calibration, "margin": pipeline.guard.margin}
        pipeline.encoder = self._remembering(pipeline.encoder)
        adaptive = AdaptiveSegmentor(model, pipeline).eval()
        for condition in () if self.frames else CONDITIONS:
            options = {**cfg.test_dataloader.dataset, "condition": condition}
            self.frames[condition] = list(DATASETS.build(options))
        scores = [
            {condition: self._visit(adaptive, condition) for condition in CONDITIONS}
            for _ in range(rounds)
        ]
        return {
            "rounds": [mean(score.values()) for score in scores],
            "last": scores[-1],
            "updates": pipeline.method.counts["updates"],
            "frames": rounds * sum(map(len, self.frames.values())),
            **_guarded(pipeline),
            **({} if pipeline.trigger is None else {"trigger": pipeline.trigger.report()}),
        }

    @torch.no_grad()
    def _visit(self, adaptive: AdaptiveSegmentor, condition: str) -> float:
        metric = VisitIoUMetric()
        metric.dataset_meta = adaptive.segmentor.dataset_meta
        for frame in self.frames[condition]:
            data = pseudo_collate([{**frame, "data_samples": frame["data_samples"].clone()}])
            samples = adaptive.test_step(data)
            metric.process({}, [sample.to_dict() for sample in samples])
        return metric.running_miou()

    def _config(self, method: str, trigger: Mapping[str, Any] | None) -> Config:
        cfg = Config.fromfile(CONFIGS / f"segformer-tiny_{method}_robust.py")
        cfg.test_dataloader.dataset.data_root = str(self.folder)
        cfg.source_images.data_root = str(self.folder / "rgb_anon" / "clear" / "train")
        cfg.reservoir.trigger = trigger
        if self.style_size is not None:
            cfg.reservoir.style = dict(size=self.style_size)
        if self.source:  # the same for all runs
            cfg.reservoir.calibration = self.source["calibration"]
            cfg.reservoir.guard = dict(type="labels", margin=self.source["margin"])
        return cfg

    def _remembering(self, encode: Any) -> Any:
        """Encode each frame once, since all rounds of all runs have the same frames."""

        def style(inputs: Tensor) -> Tensor:
            key = hash(tensor_bytes(inputs))
            if key not in self.styles:
                self.styles[key] = encode(inputs)
            return self.styles[key]

        return style


def _guarded(pipeline: AdaptationPipeline) -> dict[str, int]:
    experts = pipeline.report()["guard"]["experts"].values()
    return {name: sum(expert[name] for expert in experts) for name in ("probes", "alarms")}


def stages(turns: int, style_size: float | None = None) -> dict[str, float]:
    """Return the median CPU seconds of the stages of a step of SegFormer-B0 at 256 x 512.

    The stages are ``style``, ``adapt`` (forward, backward, step, and pooling of four experts) and
    ``rest``. Each turn measures all of them.

    Args:
        turns: Number of measurements.
        style_size: Scale of the image for its style. Defaults to None, that of the preset.
    """
    torch.manual_seed(0)
    inputs = torch.randn(1, 3, 256, 512)
    size = {} if style_size is None else {"size": style_size}
    encode = pick("style", {**STREAM["style"], **size}, "style").build()
    pipelines = {name: _b0(trigger) for name, trigger in (("adapt", None), ("rest", NEVER))}
    seconds: dict[str, list[float]] = {"style": [], "adapt": [], "rest": []}
    for _ in range(turns + 1):
        for name, spent in seconds.items():
            start = time.process_time()
            if name == "style":
                encode(inputs)
            else:
                pipelines[name].step(inputs, domain=CONDITIONS[0])
            spent.append(time.process_time() - start)
    return {name: median(spent[1:]) for name, spent in seconds.items()}  # the first warms up


def _b0(trigger: Mapping[str, Any] | None) -> AdaptationPipeline:
    """Return a reservoir of four experts around SegFormer-B0 with random weights."""
    cfg = get_config("mmseg::segformer/segformer_mit-b0_8xb1-160k_cityscapes-1024x1024.py")
    init_default_scope("mmseg")
    cfg.model.backbone.init_cfg = None
    cfg.model.test_cfg = dict(mode="whole")
    model = revert_sync_batchnorm(MODELS.build(cfg.model)).eval()
    safeguards = dict(guard=None, trigger=trigger, router=dict(type="oracle"))
    plan = RunBuilder(SEGMENTATION, "tent", reservoir=dict(preset="robust", **safeguards))
    image_range = preprocessor_range(model.data_preprocessor)
    context = TaskContext(model, segmentation_forward, image_range)
    pipeline = plan.assemble(context)
    for condition in CONDITIONS:
        pipeline.step(torch.randn(1, 3, 256, 512), domain=condition)
    return pipeline


def speed_up(run: Mapping[str, Any], off: Mapping[str, Any], cost: Mapping[str, float]) -> float:
    """Return the throughput of a run over that of the same frames without a trigger."""

    def seconds(run: Mapping[str, Any]) -> float:
        rested = run.get("trigger", {}).get("rests", 0) / run["frames"]
        guard = 3 * run["probes"] / run["frames"]  # the source's pass, and two of mirror images
        spent = rested * cost["rest"] + (1 - rested) * cost["adapt"]
        return cost["style"] + spent + guard * cost["rest"]

    return seconds(off) / seconds(run)


def summarize(runs: Mapping[tuple[str, str], list[dict]], cost: Mapping[str, float]) -> list[list]:
    """Return one row per method and trigger: means over the draws, differences to no trigger."""
    rows = []
    for (method, trigger), draws in runs.items():
        off = runs.get((method, "off"), [])
        if len(off) != len(draws):
            continue
        pairs = list(zip(draws, off, strict=True))
        last = [a["rounds"][-1] - b["rounds"][-1] for a, b in pairs]
        all_ = [mean(a["rounds"]) - mean(b["rounds"]) for a, b in pairs]
        share = mean(a["updates"] / a["frames"] for a, _ in pairs)
        rows.append(
            [
                *(method, trigger, f"{share:.2f}"),
                f"{mean(speed_up(a, b, cost) for a, b in pairs):.2f}",
                *(f"{mean(run['rounds'][at] for run in draws):.2f}" for at in (0, -1)),
                *(", ".join(f"{value:+.2f}" for value in values) for values in (last, all_)),
            ]
        )
    return rows


HEADER = ["method", "trigger", "updates per frame", "throughput"]
HEADER += ["round 1", "last round", "difference at the last", "difference of the means"]


def plot(rows: Sequence[Sequence[str]], path: Path) -> None:
    """Draw the change of mIoU in the last round against throughput."""
    from matplotlib.figure import Figure

    methods = list(dict.fromkeys(row[0] for row in rows))
    figure = Figure(figsize=(4.6 * len(methods), 3.6), layout="constrained")
    axes = figure.subplots(1, len(methods), squeeze=False)[0]
    for axis, method in zip(axes, methods, strict=True):
        for row in (row for row in rows if row[0] == method):
            change = mean(map(float, row[6].split(", ")))
            axis.plot(float(row[3]), change, "s" if row[1] == "settled" else "o")
            axis.annotate(row[1], (float(row[3]), change), fontsize=7)
        axis.axhline(-0.2, color="0.7", lw=0.8)
        axis.axvline(1.6, color="0.7", lw=0.8)
        axis.set(title=method, xlabel="throughput over no trigger", ylabel="difference of mIoU")
    figure.savefig(path, dpi=130)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the missing runs and summarize all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=["tent", "becotta"])
    parser.add_argument("--triggers", nargs="+", default=list(TRIGGERS), choices=list(TRIGGERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--style-size", type=float, help="scale of a frame for its style")
    parser.add_argument("--turns", type=int, default=15, help="repetitions of the timing")
    parser.add_argument("--out", type=Path, default=ROOT / "work_dirs" / "trigger")
    args = parser.parse_args(argv)
    out = args.out.resolve()
    runs: dict[tuple[str, str], list[dict]] = {}
    for seed in args.seeds:
        draw = Draw(seed, out / f"seed{seed}" / "data", args.style_size)
        for method, trigger in itertools.product(args.methods, args.triggers):
            file = out / f"seed{seed}" / f"{method}_{trigger}_{args.rounds}.json"
            if not file.is_file():
                results = draw.run(method, TRIGGERS[trigger], args.rounds)
                write_text(file, strict_json({"options": TRIGGERS[trigger], **results}))
                print(file.stem, seed, [round(x, 2) for x in results["rounds"]], flush=True)
            runs.setdefault((method, trigger), []).append(json.loads(file.read_text("utf-8")))
    cost = stages(args.turns, args.style_size)
    costs = ", ".join(f"{name} {1000 * seconds:.0f} ms" for name, seconds in cost.items())
    rows = summarize(runs, cost)
    table = make_table(HEADER, rows, 2, markdown=True)
    write_text(out / "summary.md", f"{costs}\n\n{table}\n")
    print(f"{costs}\n{table}")
    plot(rows, out / "trigger.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
