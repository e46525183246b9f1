"""The recurring protocol: all domains in order, again and again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import torch
from mmengine.registry import DATASETS, LOOPS
from mmengine.runner import Runner, TestLoop
from torch.utils.data import DataLoader

from ..errors import ReservoirError
from ..options import check_options
from .bad_images import BadImage, CheckedDataset, collate_good

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
    them where the stream is. What a hook wants undone however the test ends it puts on ``closing``.
    A hook that loads a state at ``before_test`` lets the stream begin where that was saved.

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
        on_bad_image: An image or label that cannot be used is an error (``"stop"``), or left out,
            reported and counted (``"skip"``).
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
        on_bad_image: Literal["stop", "skip"] = "stop",
        fp16: bool = False,
        **unknown: Any,
    ) -> None:
        plain = dict(rounds=rounds, shuffle=shuffle, on_bad_image=on_bad_image, fp16=fp16)
        self.check(dict(domains=domains, **plain, **unknown))
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
        self.skips = on_bad_image == "skip"
        if self.skips:
            dataloader = {**dataloader, "collate_fn": collate_good}
        self.loaders = {
            name: runner.build_dataloader(
                {**dataloader, "dataset": self._dataset({**dataloader["dataset"], **options})},
                seed=runner.seed,
            )
            for name, options in changes.items()
        }
        places = product(range(1, rounds + 1), self.loaders)
        self.visits = [Visit(index, *place) for index, place in enumerate(places)]
        self.visit = self.visits[0]
        self.closing = ExitStack()
        self._restart()
        super().__init__(runner, self.loaders[self.visit.domain], _with_exact_iou(evaluator), fp16)

    @staticmethod
    def check(options: Mapping[str, Any]) -> None:
        """Refuse options of ``test_cfg`` that cannot be meant."""
        given = ("runner", "dataloader", "evaluator")
        check_options(RecurringTestLoop, options, "test_cfg", given)
        domains, rounds = options.get("domains", ("fog",)), options.get("rounds", 1)
        if isinstance(domains, str) or not isinstance(domains, Sequence):
            raise ReservoirError(f"test_cfg.domains must be a list of domains, got {domains!r}")
        if rounds < 1 or not domains:
            raise ReservoirError(f"need 1 or more rounds and domains, got {rounds} and {domains}")

    def _dataset(self, options: Mapping[str, Any]) -> CheckedDataset:
        dataset = DATASETS.build(dict(options))
        if hasattr(dataset, "full_init"):
            dataset.full_init()  # as the runner does with those that it builds
        return CheckedDataset(dataset, self.skips)

    @property
    def total_images(self) -> int:
        """Images in the whole stream."""
        return sum(len(self.loaders[visit.domain].dataset) for visit in self.visits)

    def run(self) -> dict[str, float]:
        """Run the stream; returns every visit's mIoU by ``round{r}/{domain}``, and their mean.

        A visit to a domain without labels has none.
        """
        with self.closing:
            self._restart()
            try:
                self.runner.call_hook("before_test")
                self.runner.model.eval()
                for visit in self.visits[self._begun :]:
                    self._run_visit(visit)
            except BaseException:  # Ctrl-C too
                self.runner.call_hook("after_abort")
                raise
            self.runner.call_hook("after_test")
        known = [score for score in self._scores.values() if not math.isnan(score)]
        return {**self._scores, "mIoU": sum(known) / len(known)} if known else {}

    def _restart(self) -> None:
        self._begun = 0  # the visit that is under way, or next
        self._batches = 0  # of it that are done
        self._scores: dict[str, float] = {}
        self.skipped: list[dict[str, Any]] = []
        """Images that were left out: round, domain, image and cause."""

    def state_dict(self) -> dict[str, Any]:
        """Where the stream is: scores of visits, batches done, what metrics counted in them."""
        return {
            "visit": self._begun,
            "batches": self._batches,
            "scores": dict(self._scores),
            "skipped": [dict(image) for image in self.skipped],
            "metrics": [list(metric.results) for metric in self.evaluator.metrics],
            "strange": [getattr(metric, "strange_so_far", 0) for metric in self.evaluator.metrics],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`; the stream goes on from there."""
        self._begun, self._batches = state["visit"], state["batches"]
        self._scores = dict(state["scores"])
        self.skipped = [dict(image) for image in state["skipped"]]
        parts = zip(self.evaluator.metrics, state["metrics"], state["strange"], strict=True)
        for metric, results, strange in parts:
            metric.results, metric.strange_so_far = list(results), strange

    def _run_visit(self, visit: Visit) -> None:
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
        for index, batch in enumerate(self._batches_left(), start=self._batches):
            self._batches = index + 1  # as the hooks after it see it
            if self.skips:
                batch = self._without_bad(*batch)
            if batch is not None:
                self.run_iter(index, batch)
        metrics = self.evaluator.evaluate(len(self.dataloader.dataset))
        # Numbers of numpy become plain ones.
        metrics = {n: v.item() if hasattr(v, "item") else v for n, v in metrics.items()}
        self._begun, self._batches = visit.index + 1, 0
        if "mIoU" in metrics:
            self._scores[f"round{visit.round}/{visit.domain}"] = metrics["mIoU"]
        self.runner.call_hook("after_test_epoch", metrics=metrics)

    def _batches_left(self) -> Iterator[Any]:
        """The batches of the visit that have not been done; the others are not even read."""
        if self._batches == 0:
            return iter(self.dataloader)
        # A loader draws a random number when it begins: this one had begun before.
        with torch.random.fork_rng(devices=[]):
            return iter(_without_first(self.dataloader, self._batches))

    def _without_bad(self, batch: dict | None, bad: Sequence[BadImage]) -> dict | None:
        for image in bad:
            place = {"round": self.visit.round, "domain": self.visit.domain}
            self.skipped.append({**place, **vars(image)})
            self.runner.logger.warning(f"image skipped: {image.cause}")
        return batch


def _without_first(loader: DataLoader, count: int) -> DataLoader:
    """The same loader without its first batches."""
    return DataLoader(
        loader.dataset,
        batch_sampler=list(loader.batch_sampler)[count:],
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        prefetch_factor=loader.prefetch_factor,
    )


def _with_exact_iou(evaluator: dict | list) -> list[dict]:
    metrics = evaluator if isinstance(evaluator, (list, tuple)) else [evaluator]
    return [
        {**metric, "type": "VisitIoUMetric"} if metric["type"] == "IoUMetric" else metric
        for metric in metrics
    ]
