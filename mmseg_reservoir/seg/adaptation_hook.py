"""The hook that makes a test run adapt."""

from __future__ import annotations

import logging

from mmengine.dist import get_world_size
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from mmseg.models import EncoderDecoder

from ..errors import ReservoirError
from .build import build_pipeline
from .segmentor import AdaptiveSegmentor


@HOOKS.register_module()
class AdaptationHook(Hook):
    """Wraps the model at the start of a test, when its weights are loaded, and unwraps it after.

    What to build stands in the config beside it: ``method``, ``params``, ``reservoir`` and
    ``source_images`` (see ``configs/_base_``). A wrapper named in the config itself would come
    before the weights, and mmengine would not find the keys of the checkpoint in it.

    Args:
        reset_on_visit: Begin every visit with a new optimizer, as code does that runs one domain
            after the other with an optimizer each. It tells the method when the domain changes,
            which a deployed model does not know: for comparisons only.
    """

    priority = "VERY_HIGH"

    def __init__(self, reset_on_visit: bool = False) -> None:
        self.reset_on_visit = reset_on_visit

    def before_test(self, runner: Runner) -> None:
        """Wrap the model."""
        if get_world_size() > 1:
            raise ReservoirError(
                "adaptation follows one stream and cannot be split over several processes: start "
                "one process without a launcher"
            )
        if not isinstance(runner.model, EncoderDecoder):
            raise ReservoirError(
                f"adaptation needs an mmseg EncoderDecoder, the model is a "
                f"{type(runner.model).__name__}"
            )
        # What the core says (a skipped update, a constant image) goes where the run's log goes.
        logging.getLogger("mmseg_reservoir").handlers = list(runner.logger.handlers)
        runner.model.eval()
        pipeline = build_pipeline(runner, runner.model)
        runner.model = AdaptiveSegmentor(
            runner.model, pipeline, runner.cfg.test_dataloader.batch_size
        )
        runner.model.eval()
        space = pipeline.method.space
        runner.logger.info(
            f"{type(pipeline).__name__} around {type(pipeline.method).__name__}: "
            f"{len(space):,} numbers in {len(space.names)} tensors adapt"
        )

    def before_test_epoch(self, runner: Runner) -> None:
        """Tell an oracle where it is, and renew the optimizers if that is asked for."""
        visit = getattr(runner.test_loop, "visit", None)
        runner.model.domain = visit.domain if visit else None
        if self.reset_on_visit:
            runner.model.pipeline.reset_optimizers()

    def after_test(self, runner: Runner) -> None:
        """Unwrap the model, so that another test starts anew."""
        adaptive = runner.model
        adaptive.pipeline.method.space.load(adaptive.pipeline.source)
        runner.model = adaptive.segmentor
