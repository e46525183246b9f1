"""What an update trigger costs and saves: mIoU against throughput, on MiniCity.

    python benchmarks/trigger.py --seeds 1 2 3                  # all triggers, TENT and BECoTTA
    python benchmarks/trigger.py --seeds 4 --triggers off every2 settled --methods tent

A seed is a MiniCity of its own (see benchmarks/minicity.py). The share of updates is counted there;
what it gives in time is computed from the stages of a step of SegFormer-B0 at 256 x 512, measured
in turns. Runs in OUT are not repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmseg.registry import DATASETS
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks.minicity import CONFIGS, COUNTS, ROOT
from mmseg_reservoir.core.pipeline import AdaptationPipeline
from mmseg_reservoir.core.state import tensor_bytes
from mmseg_reservoir.files import write_text
from mmseg_reservoir.minicity import write_dataset
from mmseg_reservoir.report.tables import make_table
from mmseg_reservoir.seg.hooks.adaptation_hook import make_plan
from mmseg_reservoir.seg.metric import VisitIoUMetric
from mmseg_reservoir.seg.model_loading import load_model
from mmseg_reservoir.seg.segmentor import AdaptiveSegmentor
from mmseg_reservoir.seg.source_images import workplace_of

CONDITIONS = ("fog", "night", "rain", "snow")
TRIGGERS: dict[str, dict[str, Any] | None] = {
    "off": None,
    "every2": dict(type="every", n=2),
    "every4": dict(type="every", n=4),
    "every8": dict(type="every", n=8),
    "first_visit": dict(type="first_visit"),
    "settled": dict(type="settled"),
}


class Draw:
    """One MiniCity in memory, with all that its runs share: frames, styles, calibration, margin.

    Args:
        seed: Of the scenes and of the runs.
        folder: Where its files are, or go.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        write_dataset(folder, seed, COUNTS)
        self.styles: dict[int, Tensor] = {}
        self.known: dict[str, Any] = {}
        self.frames: dict[str, list[dict]] = {}

    def run(self, method: str, trigger: Mapping[str, Any] | None, rounds: int) -> dict[str, Any]:
        """One stream: mIoU by round, the mean of all conditions, and what was done on the way."""
        cfg = self._config(method, trigger)
        model = load_model(cfg, cfg.load_from, "cpu")
        place = workplace_of(cfg, model)
        plan = make_plan(cfg, self.seed)
        pipeline = plan.assemble(place)
        calibration = plan.look_at_source(pipeline, place)
        self.known = {"calibration": calibration, "margin": pipeline.guard.margin}
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
        if self.known:  # what the source says is the same for all
            cfg.reservoir.calibration = self.known["calibration"]
            cfg.reservoir.guard = dict(type="labels", margin=self.known["margin"])
        return cfg

    def _remembering(self, encode: Any) -> Any:
        """A frame comes in every round of every run: its style is computed once."""

        def style(inputs: Tensor) -> Tensor:
            key = hash(tensor_bytes(inputs))
            if key not in self.styles:
                self.styles[key] = encode(inputs)
            return self.styles[key]

        return style


def _guarded(pipeline: AdaptationPipeline) -> dict[str, int]:
    watched = pipeline.report()["guard"]["experts"].values()
    return {name: sum(expert[name] for expert in watched) for name in ("probes", "alarms")}


if __name__ == "__main__":
    draw = Draw(int(sys.argv[1]), Path(sys.argv[2]))
    import time
    for name in sys.argv[4:]:
        method = sys.argv[3]
        t = time.time()
        r = draw.run(method, TRIGGERS[name] if name in TRIGGERS else eval(name), 10)
        print(method, name, [round(x, 2) for x in r["rounds"]], f"mean {mean(r['rounds']):.2f}", r["updates"], r["probes"], r["alarms"], f"{time.time()-t:.0f}s", flush=True)
        if "trigger" in r:
            print("   ", {i: (e["batches"], e["rests"], round(e["usual"], 3), round(e["scatter"]**.5, 3)) for i, e in r["trigger"]["experts"].items()}, flush=True)
