"""The recurring protocol: several rounds over all domains in order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import torch
from mmengine.registry import LOOPS
from mmengine.runner import Runner, TestLoop
from torch.utils.data import DataLoader

from ..config.schema import without_scope
from ..errors import ReservoirError
from ..option_types import Count
from ..registry import check_options
from ..runs.record import RunRecord
from .bad_images import BadImage, CheckedDataset, collate_good
from .datasets import make_labels_optional
from .frame_clock import FrameClock, FrameRate
from .metric import evaluate, evaluate_frozen, with_exact_iou
from .model_loading import class_count, classes_by_number
from .named_sets import (
    Domains,
    dataset_of,
    domains_by_name,
    lacks_classes,
    read_dataset,
    with_new_names,
)
from .segmentor import AdaptiveSegmentor

_SEED_STEP = 1_000_003
"""Factor on the epoch that mmengine's sampler adds to its seed. Because it is large, runs with
neighboring seeds have different orders."""


@dataclass(frozen=True)
class Visit:
    """One pass over one domain; rounds count from 1."""

    index: int
    round: int
    domain: str


@LOOPS.register_module()
class RecurringTestLoop(TestLoop):
    """A test of a model on ``rounds`` passes over ordered domains, without a reset in between.

    Every visit is a test epoch with a separate metric, so all hooks of mmengine work. ``visit`` is
    the current visit. ``closing`` is an ``ExitStack`` that closes at the end of every test, also
    after an error. A hook may load a state in ``before_test``; the stream then resumes from it.

    Args:
        dataloader: Config of one dataloader. Its dataset is built once per domain.
        evaluator: Metrics of a visit. An ``IoUMetric`` is replaced by `VisitIoUMetric`.
        rounds: Number of visits to every domain. Defaults to 10.
        domains: Domains in order. A name is that of a set in `NAMED_SETS`, or else the dataset's
            ``condition``. A dict has a ``name`` and options of the dataset:
            ``dict(name="dusk", data_root=...)``, ``dict(name="bdd", set="bdd100k")``.
        shuffle: Order of a domain's images: one random order for all rounds (``"once"``), a new
            one at each visit (``"visit"``), or that of the dataloader (``"never"``). Random orders
            depend only on the run's seed. Defaults to ``"never"``.
        on_bad_image: Whether an unusable image or label is an error (``"stop"``), or is skipped,
            reported and counted (``"skip"``). Defaults to ``"stop"``.
        extra_eval_sets: Labeled sets, in the form of ``domains``. The frozen model is tested on
            them after every round and does not change. Defaults to none.
        frame_rate: Frames per second of a simulated camera (`FrameClock`). A model that is still
            busy misses frames. Defaults to None: no frame is missed, as published.
        missed: Answer to a missed frame: a prediction of the last finished model (``"answer"``),
            or the last finished label map (``"drop"``). Both are scored. Defaults to ``"answer"``.
        step_seconds: Seconds per step, or by stage, ``dict(predict=0.05, adapt=0.2)``. Defaults to
            None: measured at the first batch, and stored in ``results.json``.
        fp16: Whether to test under autocast. Defaults to False.
    """

    def __init__(
        self,
        runner: Runner,
        dataloader: dict,
        evaluator: dict | list,
        rounds: Count = 10,
        domains: Domains = ("fog", "night", "rain", "snow"),
        shuffle: Literal["never", "once", "visit"] = "never",
        on_bad_image: Literal["stop", "skip"] = "stop",
        extra_eval_sets: Domains = (),
        frame_rate: FrameRate | None = None,
        missed: Literal["answer", "drop"] = "answer",
        step_seconds: float | Mapping | None = None,
        fp16: bool = False,
        **unknown: Any,
    ) -> None:
        unknown = with_new_names(unknown)
        extra_eval_sets = unknown.pop("extra_eval_sets", extra_eval_sets)
        plain: dict[str, Any] = dict(domains=domains, extra_eval_sets=extra_eval_sets)
        plain |= dict(rounds=rounds, shuffle=shuffle, on_bad_image=on_bad_image, fp16=fp16)
        timing: dict[str, Any] = dict(frame_rate=frame_rate, missed=missed)
        timing["step_seconds"] = step_seconds
        self.check({**plain, **timing, **unknown})
        self._timing = None if frame_rate is None else timing
        self.skips = on_bad_image == "skip"
        extra_sets = domains_by_name(extra_eval_sets, "extra_eval_sets")
        self._extra_loaders = self._loaders(runner, dataloader, extra_sets)
        if shuffle != "never":
            dataloader = {**dataloader, "sampler": dict(type="DefaultSampler", shuffle=True)}
        self.shuffle = shuffle
        if self.skips:
            dataloader = {**dataloader, "collate_fn": collate_good}
        self.loaders = self._loaders(runner, dataloader, domains_by_name(domains, "domains"))
        visits = product(range(1, rounds + 1), self.loaders)
        self.visits = [Visit(index, *visit) for index, visit in enumerate(visits)]
        self.visit = self.visits[0]
        self.closing = ExitStack()
        self._restart()
        super().__init__(runner, self.loaders[self.visit.domain], with_exact_iou(evaluator), fp16)

    @staticmethod
    def check(options: Mapping[str, Any]) -> None:
        """Raise an error if options of ``test_cfg`` are invalid."""
        options = with_new_names(without_scope(options))
        injected = ("runner", "dataloader", "evaluator")
        options = check_options(RecurringTestLoop, options, "test_cfg", injected)
        domains = options.get("domains", ("fog",))
        if not domains:
            raise ReservoirError("test_cfg.domains is empty: name one or more domains")
        domains_by_name(domains, "domains")
        domains_by_name(options.get("extra_eval_sets", ()), "extra_eval_sets")
        rate, seconds = options.get("frame_rate"), options.get("step_seconds")
        if rate is not None:
            FrameClock.check(seconds)
        elif seconds is not None or options.get("missed", "answer") != "answer":
            raise ReservoirError(
                "test_cfg.missed and test_cfg.step_seconds belong to test_cfg.frame_rate: give "
                "that, too"
            )

    def _loaders(
        self, runner: Runner, dataloader: Mapping[str, Any], domains: Mapping[str, str | Mapping]
    ) -> dict[str, Any]:
        loaders = {}
        for name, domain in domains.items():
            options = dataset_of(domain, dataloader["dataset"])
            if lacks_classes(options):
                options["metainfo"] = classes_by_number(class_count(runner.model))
            dataset = read_dataset(name, options)
            make_labels_optional(dataset)
            # Extra sets skip no image, so that their scores can be compared over rounds.
            skips = self.skips and dataloader.get("collate_fn") is collate_good
            options = {**dataloader, "dataset": CheckedDataset(dataset, skips)}
            loaders[name] = runner.build_dataloader(options, seed=runner.seed)
        return loaders

    @property
    def total_images(self) -> int:
        return sum(len(self.loaders[visit.domain].dataset) for visit in self.visits)

    def run(self) -> dict[str, float]:
        """Run the stream, and return the mIoU of each visit by ``round{r}/{domain}`` and the mean.

        Visits to a domain without labels are missing from the result.
        """
        with self.closing:
            self._restart()
            try:
                self.runner.call_hook("before_test")
                self.runner.model.eval()
                if self.clock is not None:
                    if not isinstance(self.runner.model, AdaptiveSegmentor):
                        raise ReservoirError(
                            "test_cfg.frame_rate is for models that adapt: add "
                            "dict(type='AdaptationHook') to custom_hooks, or leave it out"
                        )
                    self.runner.model.clock = self.clock
                self._test_extra_sets()
                for visit in self.visits[self._begun :]:
                    self._run_visit(visit)
                    self._test_extra_sets()
            except BaseException:  # Ctrl-C too
                self.runner.call_hook("after_abort")
                raise
            self.runner.call_hook("after_test")
        scores = [score for score in self._scores.values() if not math.isnan(score)]
        return {**self._scores, "mIoU": sum(scores) / len(scores)} if scores else {}

    def _restart(self) -> None:
        self.clock = None if self._timing is None else FrameClock(**self._timing)
        self._begun = 0  # index of the current or next visit
        self.batches_done = 0  # of that visit
        self._scores: dict[str, float] = {}
        self.skipped: list[dict[str, Any]] = []
        """Images that were left out: round, domain, image and cause."""
        self.extra_scores: list[dict[str, Any]] = []
        """Scores of every extra set after every round, as entries of ``results.json``."""
        self.record: RunRecord | None = None
        """The record of the run; set by the hook that keeps one."""

    def state_dict(self) -> dict[str, Any]:
        """Return the position in the stream, the scores so far, and the state of the metrics."""
        return {
            "visit": self._begun,
            "batches": self.batches_done,
            "scores": dict(self._scores),
            "skipped": [dict(image) for image in self.skipped],
            "also": [dict(scores) for scores in self.extra_scores],
            "metrics": [list(metric.results) for metric in self.evaluator.metrics],
            "strange": [getattr(metric, "strange_so_far", 0) for metric in self.evaluator.metrics],
            **({} if self.clock is None else {"clock": self.clock.state_dict()}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore :meth:`state_dict`; the stream continues from there."""
        self._begun, self.batches_done = state["visit"], state["batches"]
        self._scores = dict(state["scores"])
        self.skipped = [dict(image) for image in state["skipped"]]
        self.extra_scores = [dict(scores) for scores in state["also"]]
        parts = zip(self.evaluator.metrics, state["metrics"], state["strange"], strict=True)
        for metric, results, strange in parts:
            metric.results, metric.strange_so_far = list(results), strange
        if self.clock is not None:
            self.clock.load_state_dict(state["clock"])

    def _run_visit(self, visit: Visit) -> None:
        self.visit = visit
        # LoggerHook reads the length of the current dataloader from here.
        self.dataloader = self.loaders[visit.domain]
        if self.shuffle != "never":
            # The order depends on nothing that happened before the visit.
            order = visit.index if self.shuffle == "visit" else visit.index % len(self.loaders)
            # Not `dataloader.sampler`, which differs if a batch sampler is configured.
            self.dataloader.batch_sampler.sampler.set_epoch(order * _SEED_STEP)
        self.evaluator.dataset_meta = self.dataloader.dataset.metainfo
        self.runner.call_hook("before_test_epoch")
        for index, batch in enumerate(self._batches_left(), start=self.batches_done):
            self.batches_done = index + 1  # before the hooks, which read it
            bad: Sequence[BadImage] = ()
            if self.skips:
                batch, bad = batch
            for image in bad:
                self.skipped.append({"round": visit.round, "domain": visit.domain, **vars(image)})
                self.runner.logger.warning(f"image skipped: {image.cause}")
            if self.clock is not None:
                self.clock.arrive(len(bad) + (0 if batch is None else len(batch["inputs"])))
            if batch is not None:
                self.run_iter(index, batch)
        metrics = evaluate(self.evaluator, len(self.dataloader.dataset))
        self._begun, self.batches_done = visit.index + 1, 0
        if "mIoU" in metrics:
            self._scores[f"round{visit.round}/{visit.domain}"] = metrics["mIoU"]
        self.runner.call_hook("after_test_epoch", metrics=metrics)

    def _test_extra_sets(self) -> None:
        """Test the extra sets after the last visit of a round, unless a saved state has scores."""
        rounds, rest = divmod(self._begun, len(self.loaders))
        if rest or len(self.extra_scores) == rounds * len(self._extra_loaders):
            return
        for name, loader in self._extra_loaders.items():
            scores = evaluate_frozen(self.runner.model, loader, self.evaluator, name, self.fp16)
            self.extra_scores.append({"round": rounds, "domain": name, **scores})
            miou = scores.get("mIoU", math.nan)
            self.runner.logger.info(f"after round {rounds}, {name}: mIoU {miou:.2f}")

    def _batches_left(self) -> Iterator[Any]:
        """Return the remaining batches of the visit. Earlier batches are not read."""
        if self.batches_done == 0:
            return iter(self.dataloader)
        # A loader draws a random number at its start. The saved state includes that draw already.
        with torch.random.fork_rng(devices=[]):
            return iter(_without_first(self.dataloader, self.batches_done))


def _without_first(loader: Any, count: int) -> DataLoader:
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
