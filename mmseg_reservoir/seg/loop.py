"""The recurring protocol: all domains in order, again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import torch
from mmengine.registry import LOOPS
from mmengine.runner import Runner, TestLoop
from mmengine.runner.amp import autocast
from torch import nn
from torch.utils.data import DataLoader

from ..core.aside import aside
from ..errors import ReservoirError
from ..options import check_options
from .metric import VisitIoUMetric
from .named_sets import dataset_of
from .segmentor import AdaptiveSegmentor

_SEED_STEP = 1_000_003
"""mmengine's sampler adds an epoch to its seed: in steps as wide as this, neighbouring seeds share
no orders."""


@dataclass(frozen=True)
class Visit:
    """One pass over one domain; rounds count from 1."""

    index: int
    round: int
    domain: str


@LOOPS.register_module()
class RecurringTestLoop(TestLoop):
    """Tests a model on ``rounds`` passes over ordered domains without ever resetting it.

    Every visit is a test epoch with its own metric, so all hooks of mmengine work; ``visit`` tells
    them where the stream is.

    Args:
        runner: The runner.
        dataloader: The config of one dataloader. Its dataset is built once per domain.
        evaluator: The metrics of a visit. An ``IoUMetric`` is replaced by its exact version.
        rounds: How often every domain is visited.
        domains: In order, either names (of a set in `NAMED_SETS`, else the dataset's
            ``condition``) or dicts of a ``name`` and whatever the dataset needs for this domain,
            ``dict(name="dusk", data_root=...)``, ``dict(name="bdd", set="bdd100k")``.
        shuffle: The images of a domain are in one random order in all rounds (``"once"``), in a
            new one at each visit (``"visit"``), or as stored (``"never"``: the sampler of the
            dataloader stays what it is). Orders depend on the run's seed alone.
        also: Labelled sets beside the stream, given as ``domains`` are: after every round the model
            is tested on them, frozen, which leaves no trace in it.
        fp16: Test under autocast.
    """

    def __init__(
        self,
        runner: Runner,
        dataloader: dict,
        evaluator: dict | list,
        rounds: int = 10,
        domains: Sequence[str | Mapping] = ("fog", "night", "rain", "snow"),
        shuffle: Literal["never", "once", "visit"] = "never",
        also: Sequence[str | Mapping] = (),
        fp16: bool = False,
        **unknown: Any,
    ) -> None:
        check_options(
            RecurringTestLoop,
            dict(rounds=rounds, shuffle=shuffle, fp16=fp16, **unknown),
            "test_cfg",
            given=("runner", "dataloader", "evaluator"),
        )
        named, named_also = _by_name(domains, "domains"), _by_name(also, "also")
        if rounds < 1 or not domains:
            raise ReservoirError(f"need 1 or more rounds and domains, got {rounds} and {domains}")
        self.also = _loaders(runner, dataloader, named_also)
        if shuffle != "never":
            dataloader = {**dataloader, "sampler": dict(type="DefaultSampler", shuffle=True)}
        self.shuffle = shuffle
        self.loaders = _loaders(runner, dataloader, named)
        places = product(range(1, rounds + 1), self.loaders)
        self.visits = [Visit(index, *place) for index, place in enumerate(places)]
        self.visit = self.visits[0]
        self.also_scores: list[dict[str, Any]] = []
        """Of every set beside the stream after every round, as entries of ``results.json``."""
        super().__init__(runner, self.loaders[self.visit.domain], _with_exact_iou(evaluator), fp16)

    @property
    def total_images(self) -> int:
        """Images in the whole stream."""
        return sum(len(self.loaders[visit.domain].dataset) for visit in self.visits)

    def run(self) -> dict[str, float]:
        """Run the stream; returns every visit's mIoU by ``round{r}/{domain}``, and their mean."""
        self.runner.call_hook("before_test")
        self.runner.model.eval()
        scores = {}
        for visit in self.visits:
            metrics = self._run_visit(visit)
            scores[f"round{visit.round}/{visit.domain}"] = metrics["mIoU"]
            if (visit.index + 1) % len(self.loaders) == 0:
                self._test_also(visit.round)
        self.runner.call_hook("after_test")
        return {**scores, "mIoU": sum(scores.values()) / len(scores)}

    def _run_visit(self, visit: Visit) -> dict[str, float]:
        self.visit = visit
        # LoggerHook reads the length of the current dataloader from here.
        self.dataloader = self.loaders[visit.domain]
        if self.shuffle != "never":
            # The order depends on nothing that happened before the visit.
            order = visit.index if self.shuffle == "visit" else visit.index % len(self.loaders)
            # Not `dataloader.sampler`, which is another one where a batch sampler is configured.
            self.dataloader.batch_sampler.sampler.set_epoch(order * _SEED_STEP)
        self.evaluator.dataset_meta = self.dataloader.dataset.metainfo
        self.runner.call_hook("before_test_epoch")
        for index, batch in enumerate(self.dataloader):
            self.run_iter(index, batch)
        metrics = self.evaluator.evaluate(len(self.dataloader.dataset))
        self.runner.call_hook("after_test_epoch", metrics=metrics)
        return metrics

    @torch.no_grad()
    def _test_also(self, round: int) -> None:
        """Test on the sets beside the stream; no hook sees their images."""
        for name, loader in self.also.items():
            self.evaluator.dataset_meta = loader.dataset.metainfo
            with _frozen(self.runner.model, name), autocast(enabled=self.fp16):
                for batch in loader:
                    outputs = self.runner.model.test_step(batch)
                    self.evaluator.process(data_samples=outputs, data_batch=batch)
            metrics = self.evaluator.evaluate(len(loader.dataset))
            exact = [m for m in self.evaluator.metrics if isinstance(m, VisitIoUMetric)]
            self.also_scores.append(
                {
                    "round": round,
                    "domain": name,
                    "n_images": len(loader.dataset),
                    "per_class": exact[0].per_class if exact else {},
                    **metrics,
                }
            )
            self.runner.logger.info(f"after round {round}, {name}: mIoU {metrics['mIoU']:.2f}")


@contextmanager
def _frozen(model: nn.Module, domain: str) -> Iterator[None]:
    """Within, an adaptive model only predicts, and forgets that it did; others do so anyway."""
    if not isinstance(model, AdaptiveSegmentor):
        yield
        return
    before, model.domain = model.domain, domain
    model.frozen = True
    try:
        with aside(model.pipeline):
            yield
    finally:
        model.frozen, model.domain = False, before


def _by_name(domains: Sequence[str | Mapping], option: str) -> dict[str, str | Mapping]:
    """What is said of every domain."""
    if isinstance(domains, str) or not isinstance(domains, Sequence):
        raise ReservoirError(f"test_cfg.{option} must be a list of domains, got {domains!r}")
    named: dict[str, str | Mapping] = {}
    for domain in domains:
        name = domain if isinstance(domain, str) else domain.get("name")
        if name is None or name in named:
            raise ReservoirError(f"each domain needs a name of its own: {domains}")
        named[name] = domain
    return named


def _loaders(
    runner: Runner, dataloader: Mapping[str, Any], domains: Mapping[str, str | Mapping]
) -> dict[str, DataLoader]:
    return {
        name: runner.build_dataloader(
            {**dataloader, "dataset": dataset_of(domain, dataloader["dataset"])}, seed=runner.seed
        )
        for name, domain in domains.items()
    }


def _with_exact_iou(evaluator: dict | list) -> list[dict]:
    metrics = evaluator if isinstance(evaluator, (list, tuple)) else [evaluator]
    return [
        {**metric, "type": "VisitIoUMetric"} if metric["type"] == "IoUMetric" else metric
        for metric in metrics
    ]
