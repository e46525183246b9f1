"""What came out: ``results.json``, ``results.csv`` and the tables at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mmengine
import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ... import __version__
from ...check.record import describe_loader
from ...report.closing import closing_tables
from ...report.record import installed_versions, write_results
from ..metric import VisitIoUMetric


@HOOKS.register_module()
class ResultsHook(Hook):
    """Records every visit and every route of a recurring test.

    The files are written anew after each visit, whole or not at all, so that an interrupted run
    loses nothing that it had measured; ``complete`` tells whether it came to the end. Scalars
    also go to mmengine's visualizer, hence to TensorBoard or W&B where a config asks for them.
    """

    priority = "LOW"

    def before_test(self, runner: Runner) -> None:
        """Begin the record."""
        self._method = getattr(getattr(runner.model, "pipeline", None), "method", None)
        router = getattr(getattr(runner.model, "pipeline", None), "router", None)
        self.results: dict[str, Any] = {
            "complete": False,
            "method": type(self._method).__name__ if self._method else None,
            "reservoir": router is not None,
            "seed": runner.seed,
            "tau": getattr(router, "tau", None),
            "versions": versions(),
            # Absolute: the record may be read from another folder than it was made in.
            "config_file": runner.cfg.filename and str(Path(runner.cfg.filename).resolve()),
            "data": {
                name: describe_loader(loader) for name, loader in runner.test_loop.loaders.items()
            },
            "config": runner.cfg.to_dict(),
            "options": getattr(runner.model, "options", None),
            "visits": [],
            "routes": [],
        }

    def after_test_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        """Note where each image went."""
        visit = runner.test_loop.visit
        for sample in outputs:
            about = sample.metainfo
            self.results["routes"].append(
                {
                    "round": visit.round,
                    "domain": visit.domain,
                    "image": about["img_path"],
                    "expert": about.get("expert", 0),
                    "k": about.get("k", 1),
                    "weight": about.get("route_weight", 1.0),
                    "opened": about.get("opened", False),
                    "seconds": about.get("adaptation_seconds"),
                    "entropy": about.get("entropy"),
                    "marginal_entropy": about.get("marginal_entropy"),
                }
            )

    def after_test_epoch(self, runner: Runner, metrics: dict[str, float]) -> None:
        """Note the scores of a visit and write the files."""
        visit = runner.test_loop.visit
        count = len(runner.test_loop.dataloader.dataset)
        routes = self.results["routes"][-count:]
        seconds = [route["seconds"] for route in routes if route["seconds"] is not None]
        exact = [m for m in runner.test_loop.evaluator.metrics if isinstance(m, VisitIoUMetric)]
        record = {
            "round": visit.round,
            "domain": visit.domain,
            "mIoU": metrics["mIoU"],
            "n_images": count,
            "k": routes[-1]["k"],
            "seconds_per_image": sum(seconds) / len(seconds) if seconds else None,
            "per_class": exact[0].per_class if exact else {},
            **{name: value for name, value in metrics.items() if name != "mIoU"},
        }
        self.results["visits"].append(record)
        runner.visualizer.add_scalars(
            {f"mIoU/{visit.domain}": record["mIoU"], "K": record["k"], "round": visit.round},
            step=visit.index,
        )
        self._write(Path(runner.work_dir))

    def after_test(self, runner: Runner) -> None:
        """Finish the record and print the tables."""
        self.results["complete"] = True
        self.results["updates"] = self._method.counts if self._method else {}
        self._write(Path(runner.work_dir))
        runner.logger.info(closing_tables(self.results, runner.logger.warning))
        runner.logger.info(f"Results are in {Path(runner.work_dir) / 'results.json'} and .csv")

    def _write(self, folder: Path) -> None:
        columns = ("round", "domain", "mIoU", "n_images", "k", "seconds_per_image")
        visits = self.results["visits"]
        classes = list(visits[0]["per_class"])
        rows = [
            [visit[c] for c in columns] + [visit["per_class"].get(c) for c in classes]
            for visit in visits
        ]
        write_results(folder, self.results, [[*columns, *classes], *rows])


def versions() -> dict[str, str]:
    """Versions of everything that can change a number."""
    found = {"mmseg_reservoir": __version__, "torch": torch.__version__}
    found["mmengine"] = mmengine.__version__
    names = ("mmsegmentation", "mmcv", "mmcv-lite", "opencv-python", "numpy", "peft")
    return found | installed_versions(names)
