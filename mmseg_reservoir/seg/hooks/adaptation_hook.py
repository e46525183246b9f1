"""The hook that adds adaptation to a test run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.dist import get_world_size
from mmengine.hooks import Hook
from mmengine.registry import HOOKS, MODELS
from mmengine.runner import Runner
from torch import Tensor, nn

from ...config.builder import SEGMENTATION, RunBuilder
from ...core.reservoir_pipeline import ReservoirPipeline
from ...errors import ReservoirError
from ...methods import AdaptationMethod
from ...option_types import Count, check_value
from ...routing.base import Router
from ...snapshot import save_reservoir
from ..bad_images import BadImage
from ..forward import check_model
from ..runner import FILE_ONLY
from ..source_images import ConfigSource, context_of

CONFIG_KEYS = ("method", "params", "statistics", "reservoir")
"""The groups of a config that describe adaptation, for :class:`RunBuilder`."""


@HOOKS.register_module()
class AdaptationHook(Hook):
    """Wraps the model after its weights are loaded, and unwraps it after the test.

    The config describes the adaptation: ``method``, ``params``, ``statistics``, ``reservoir`` and
    ``source_images`` (see ``configs/_base_``). The wrapper cannot be the config's ``model``: then
    mmengine would not find the checkpoint's keys in it.

    Args:
        wrapper: Options of the wrapper. Defaults to ``AdaptiveSegmentor``; use a subclass of it.
        reset_on_visit: Whether to begin every visit with a new optimizer, as code does that runs
            each domain separately. Use it for comparisons only: it reveals when the domain
            changes, which a deployed model does not know. Defaults to False.
        method: Function from the loaded model to a method, which replaces the config's
            ``method``, ``params`` and ``statistics``. Defaults to None.
        router: Router object that replaces ``reservoir.router``. Defaults to None.
        encoder: Style encoder that replaces ``reservoir.style``. Defaults to None.
    """

    priority = "VERY_HIGH"

    def __init__(
        self,
        wrapper: Mapping[str, Any] | None = None,
        reset_on_visit: bool = False,
        method: Callable[[nn.Module], AdaptationMethod] | None = None,
        router: Router | None = None,
        encoder: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.wrapper = {"type": "AdaptiveSegmentor"} if wrapper is None else dict(wrapper)
        self.reset_on_visit = reset_on_visit
        self.method = method
        self.ready = {"router": router, "style": encoder}
        self.plan: RunBuilder | None = None
        """The builder of the run. Set it if it was made from the config already."""

    def before_run(self, runner: Runner) -> None:
        """Check all options before the weights are read."""
        has_ready = any(part is not None for part in self.ready.values())
        # The runner draws the seed if the config has none.
        if self.plan is None or self.plan.seed != runner.seed or has_ready:
            self.plan = make_plan(runner.cfg, runner.seed, self.ready)

    def before_test(self, runner: Runner) -> None:
        if get_world_size() > 1:
            raise ReservoirError(
                "adaptation follows one stream and cannot be split over several processes: start "
                "one process without a launcher"
            )
        # Write messages of the core (a skipped update, a constant image) to the run's log.
        logger = logging.getLogger("mmseg_reservoir")
        logger.handlers, logger.level = list(runner.logger.handlers), runner.logger.level
        model = runner.model.eval()  # mmengine has converted SyncBN: this is one process
        check_model(model, _first_inputs(runner, model))
        # Another test of the same runner makes another plan.
        plan, self.plan = self.plan or make_plan(runner.cfg, runner.seed, self.ready), None
        if self.method is not None:
            plan.replace(method=self.method(model))
        runner.logger.info(plan.describe(), extra=FILE_ONLY)
        context = context_of(runner.cfg, model)
        pipeline = plan.assemble(context)
        calibration = plan.calibrate(pipeline, context)
        if calibration is not None:
            calibration.save(Path(runner.work_dir) / "calibration.safetensors")
        injected = {"model": model, "pipeline": pipeline}
        injected["batch_size"] = runner.cfg.test_dataloader.batch_size
        runner.model = MODELS.build({**self.wrapper, **injected}).eval()
        runner.model.options = plan.options
        runner.model.frozen = plan.start.frozen
        space = pipeline.method.space
        runner.logger.info(
            f"{type(pipeline).__name__} around {type(pipeline.method).__name__}: "
            f"{len(space):,} numbers in {len(space.names)} tensors adapt; options and versions are "
            f"in {runner.log_dir}/{runner.timestamp}.log"
        )

    def before_test_epoch(self, runner: Runner) -> None:
        """Set the true domain, which oracle routers use."""
        visit = getattr(runner.test_loop, "visit", None)
        runner.model.domain = visit.domain if visit else None

    def before_test_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None) -> None:
        """Reset the optimizers at the start of a visit, with ``reset_on_visit``."""
        if self.reset_on_visit and batch_idx == 0:
            runner.model.pipeline.reset_optimizers()

    def after_test(self, runner: Runner) -> None:
        """Save the reservoir, and unwrap the model for another test."""
        adaptive = runner.model
        if isinstance(adaptive.pipeline, ReservoirPipeline) and not adaptive.frozen:
            facts = {"options": adaptive.options, "checkpoint": runner.cfg.get("load_from")}
            save_reservoir(adaptive.pipeline, Path(runner.work_dir) / "reservoir", facts)
        adaptive.pipeline.method.space.load(adaptive.pipeline.source)
        runner.model = adaptive.segmentor


def make_plan(cfg: Config, seed: int, ready: Mapping[str, Any] | None = None) -> RunBuilder:
    """Return the builder of a run from its config.

    Objects in ``ready``, by the names of the reservoir's options, replace the config's options.
    """
    options = {key: cfg[key] for key in CONFIG_KEYS if cfg.get(key) is not None}
    ready = {name: part for name, part in (ready or {}).items() if part is not None}
    if ready:
        reservoir = options.get("reservoir") or {}
        preset = {"preset": reservoir} if isinstance(reservoir, str) else reservoir
        options["reservoir"] = {**preset, **ready}
    ConfigSource.check(cfg.get("source_images"))
    loader = cfg.get("test_dataloader") or {}
    check_value(loader.get("batch_size", 1), Count, "test_dataloader.batch_size")
    return RunBuilder(SEGMENTATION, **options, seed=seed)


@torch.no_grad()
def _first_inputs(runner: Runner, model: Any) -> Tensor:
    dataset = runner.test_loop.dataloader.dataset
    samples = (dataset[index] for index in range(len(dataset)))
    usable = next((one for one in samples if not isinstance(one, BadImage)), None)
    if usable is None:
        raise ReservoirError("no image of the first domain can be used: check its data_root")
    data = pseudo_collate([usable])
    return model.data_preprocessor(data, False)["inputs"]
