"""Results of a run: ``results.json``, ``results.csv`` and the tables at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ...core.outcome import NOT_ADAPTING
from ...datasets.manifest import describe_loader
from ...io.files import explain_disk_errors
from ...report.closing import closing_tables, run_warnings
from ...runs.record import RunRecord, about_pipeline, finite
from ..datasets import label_names
from ..label_images import write_image
from ..metric import VisitIoUMetric


@HOOKS.register_module()
class ResultsHook(Hook):
    """Records scores and routes of a recurring test.

    The files are rewritten after each visit. Frames without labels cannot be scored, so their
    predicted train ids are written to ``predictions/round{r}/{domain}`` in the work directory.
    mmengine's visualizer gets all scalars, for example for TensorBoard or W&B.
    """

    priority = "LOW"

    def before_test(self, runner: Runner) -> None:
        loop, pipeline = runner.test_loop, getattr(runner.model, "pipeline", None)
        self._pipeline = pipeline
        self._label_names: dict[str, dict[str, str]] = {}  # by domain
        settings = {
            **about_pipeline(pipeline),
            "seed": runner.seed,
            # Absolute, because the record may be read from another folder.
            "config_file": runner.cfg.filename and str(Path(runner.cfg.filename).resolve()),
            "data": {name: describe_loader(loader) for name, loader in loop.loaders.items()},
            # With the same keys as the streams of classification.
            "stream": {
                "kind": "recurring",
                "domains": list(loop.loaders),
                "rounds": loop.visits[-1].round,
                "shuffle": loop.shuffle,
                "images": loop.total_images,
            },
            "palette": _palette(loop.dataloader.dataset),
            "config": _config(runner),
            "options": getattr(runner.model, "options", None),
        }
        self.record = RunRecord(Path(runner.work_dir), "mIoU", settings)
        loop.record = self.record

    def after_test_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        visit = runner.test_loop.visit
        images = [sample.img_path for sample in outputs]
        outcome = outputs[0].get("outcome", NOT_ADAPTING)
        self.record.add_images(visit.round, visit.domain, images, outcome)
        for sample in outputs:
            if "gt_sem_seg" not in sample:
                if visit.domain not in self._label_names:
                    names = label_names(runner.test_loop.dataloader.dataset)
                    self._label_names[visit.domain] = names
                path = sample.img_path
                name = self._label_names[visit.domain].get(path, Path(path).stem)
                folder = self.record.folder / "predictions" / f"round{visit.round}" / visit.domain
                label = sample.pred_sem_seg.data[0].cpu().numpy().astype(np.uint8)
                write_image(folder / f"{name}_labelTrainIds.png", label)

    def after_test_epoch(self, runner: Runner, metrics: dict[str, float]) -> None:
        current = runner.test_loop.visit
        exact = [m for m in runner.test_loop.evaluator.metrics if isinstance(m, VisitIoUMetric)]
        others = {name: value for name, value in metrics.items() if name != "mIoU"}
        visit = self.record.visit(current.round, current.domain)
        visit.score = finite(metrics.get("mIoU"))  # None if no pixel was labeled
        skipped = getattr(runner.test_loop, "skipped", [])
        visit.skipped = sum(
            (s["round"], s["domain"]) == (visit.round, visit.domain) for s in skipped
        )
        visit.more = {"per_class": exact[0].per_class if exact else {}, **others}
        if exact and exact[0].strange_labels:
            visit.more["strange_labels"] = exact[0].strange_labels
        scores = {} if visit.score is None else {f"mIoU/{current.domain}": visit.score}
        scalars = {**scores, "K": visit.k, "round": current.round}
        with explain_disk_errors(runner.work_dir):
            runner.visualizer.add_scalars(scalars, step=current.index)
        if getattr(runner.test_loop, "clock", None) is not None:
            self.record.header = {**self.record.header, "clock": runner.test_loop.clock.report()}
        self.record.extra_scores = runner.test_loop.extra_scores
        self.record.write()

    def state_dict(self) -> dict[str, Any]:
        return self.record.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.record.load_state_dict(state)

    def after_test(self, runner: Runner) -> None:
        counted = {} if self._pipeline is None else self._pipeline.report()
        counts = {} if self._pipeline is None else self._pipeline.method.counts
        skipped = getattr(runner.test_loop, "skipped", [])
        self.record.extra_scores = runner.test_loop.extra_scores
        results = self.record.finish(counts, skipped_images=skipped, **counted)
        runner.logger.info(closing_tables(results, runner.logger.warning))
        for warning in run_warnings(results):
            runner.logger.warning(warning)
        runner.logger.info(f"Results are in {Path(runner.work_dir) / 'results.json'} and .csv")


def _config(runner: Runner) -> dict[str, Any]:
    """Return all options except those that differ when the same run is resumed."""
    config = runner.cfg.to_dict()
    for hook in config.get("custom_hooks") or []:
        if hook["type"] == "ResumeHook":
            hook.pop("resume", None)
            hook.pop("overwrite", None)
    return config


def _palette(dataset: Any) -> dict[str, list[int]] | None:
    """Return the RGB color of each class by name; None if the dataset lacks either."""
    meta = getattr(dataset, "metainfo", {})
    classes, palette = meta.get("classes"), meta.get("palette")
    if not classes or not palette:
        return None
    return {name: list(color) for name, color in zip(classes, palette, strict=False)}
