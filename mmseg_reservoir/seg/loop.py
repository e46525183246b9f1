"""The recurring protocol: all domains in order, again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from mmengine.registry import LOOPS
from mmengine.runner import Runner, TestLoop

from ..errors import ReservoirError
from ..options import check_options

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
        domains: In order, either names (the dataset's ``condition``) or dicts of a ``name`` and
            whatever the dataset needs for this domain, ``dict(name="dusk", data_root=...)``.
        shuffle: The images of a domain are in one random order in all rounds (``"once"``), in a
            new one at each visit (``"visit"``), or as stored (``"never"``: the sampler of the
            dataloader stays what it is). Orders depend on the run's seed alone.
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
        fp16: bool = False,
        **unknown: Any,
    ) -> None:
        check_options(
            RecurringTestLoop,
            dict(rounds=rounds, shuffle=shuffle, fp16=fp16, **unknown),
            "test_cfg",
            given=("runner", "dataloader", "evaluator"),
        )
        if isinstance(domains, str) or not isinstance(domains, Sequence):
            raise ReservoirError(f"test_cfg.domains must be a list of domains, got {domains!r}")
        if rounds < 1 or not domains:
            raise ReservoirError(f"need 1 or more rounds and domains, got {rounds} and {domains}")
        changes = {}
        for domain in domains:
            domain = {"name": domain, "condition": domain} if isinstance(domain, str) else domain
            options = dict(domain)
            if "name" not in options or options["name"] in changes:
                raise ReservoirError(f"each domain needs a name of its own: {domains}")
            changes[options.pop("name")] = options
        if shuffle != "never":
            dataloader = {**dataloader, "sampler": dict(type="DefaultSampler", shuffle=True)}
        self.shuffle = shuffle
        self.loaders = {
            name: runner.build_dataloader(
                {**dataloader, "dataset": {**dataloader["dataset"], **options}},
                seed=runner.seed,
            )
            for name, options in changes.items()
        }
        places = product(range(1, rounds + 1), self.loaders)
        self.visits = [Visit(index, *place) for index, place in enumerate(places)]
        self.visit = self.visits[0]
        super().__init__(runner, self.loaders[self.visit.domain], _with_exact_iou(evaluator), fp16)

    @property
    def total_images(self) -> int:
        """Images in the whole stream."""
        return sum(len(self.loaders[visit.domain].dataset) for visit in self.visits)

    def run(self) -> dict[str, float]:
        """Run the stream; returns every visit's mIoU by ``round{r}/{domain}``, and their mean.

        A visit to a domain without labels has none.
        """
        self.runner.call_hook("before_test")
        self.runner.model.eval()
        scores = {}
        for visit in self.visits:
            metrics = self._run_visit(visit)
            if "mIoU" in metrics:
                scores[f"round{visit.round}/{visit.domain}"] = metrics["mIoU"]
        self.runner.call_hook("after_test")
        return {**scores, "mIoU": sum(scores.values()) / len(scores)} if scores else {}

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


def _with_exact_iou(evaluator: dict | list) -> list[dict]:
    metrics = evaluator if isinstance(evaluator, (list, tuple)) else [evaluator]
    return [
        {**metric, "type": "VisitIoUMetric"} if metric["type"] == "IoUMetric" else metric
        for metric in metrics
    ]
