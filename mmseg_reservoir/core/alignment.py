"""Alignment: each expert corrects the feature moments of its domain towards those of the source.

It only needs forward passes; :mod:`.correction` has the equations. A pass measures and corrects one
layer after another, so deeper layers see corrected inputs. The best depth depends on the network,
so each expert finds its ``reach`` by trials (:class:`.DomainMoments`). The correction is affine
per channel and can be folded into the layer's weight and bias.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..option_types import Count, Natural, Positive, PositiveFraction
from ..registry import register
from .aligned_passes import INPUT, AlignedPasses, Forward
from .correction import Correction
from .domain_moments import PROBES, SETTLE, DomainMoments
from .losses import entropy
from .moments import Reference, average_moments, channels_of, norm_layers
from .reservoir_part import ReservoirPart, State, events_by_expert, padded
from .state import copied_to

_SURE = 0.15  # weight of a nat of entropy against a mirror agreement of 1
_EVENTS = 1000  # the largest number of stored events
_COUNTS = ("images", "batches")  # the counts of a domain's moments
_logger = logging.getLogger(__name__)


@register("alignment", "moments")
class Alignment(AlignedPasses, ReservoirPart):
    """Correction of the outputs of normalization layers, for each expert by its domain's moments.

    Expert 0, the source's, is never aligned. Outside :meth:`expert` the model is unchanged.

    Args:
        kappa: Evidence at which a layer has half of its largest strength. Defaults to 2.
        reach: Fixed depth at which the strength is 0, as a fraction of the layers. Defaults to
            None: every expert finds one by trials, starting with 0.5.
        strength: Fixed strength of every layer within reach. Defaults to None, by evidence.
        window: Window of the moments, in batches: within it they are a plain average over images,
            after it a moving one. Defaults to 20.
        prior: Number of images that the reference counts for. Defaults to 10.
        layers: Layers to correct: ``"norms"``, ``"input"`` (the input channels) or ``"both"``.
            Defaults to ``"norms"``.
    """

    def __init__(
        self,
        kappa: Positive = 2.0,
        reach: Positive | None = None,
        strength: PositiveFraction | None = None,
        window: Count = 20,
        prior: Natural = 10,
        layers: Literal["norms", "input", "both"] = "norms",
    ) -> None:
        super().__init__(Correction(kappa, reach, strength, window, prior), layers)
        self.window = window
        self.domains: list[DomainMoments | None] = [None]  # by expert; None is not aligned
        self.events: list[dict[str, Any]] = []
        self._pending: list[tuple[Tensor, Tensor, int]] = []  # moments of unfit batches

    def take_reference(self, model: nn.Module, saved: Mapping[str, Any] | None) -> None:
        """Set the reference from saved moments of this model, or from its BatchNorm layers.

        Without either, log a warning and disable alignment.
        """
        layers = {name: channels_of(module) for name, module in norm_layers(model).items()}
        if not layers and self.layers != INPUT:
            _logger.info("alignment: %s has no layer to align", type(model).__name__)
            return
        if saved is not None and saved["layers"].items() <= {INPUT: 3, **layers}.items():
            self.reference = Reference(**copied_to(dict(saved), self._device))
            return
        reference = None if self.layers == INPUT else Reference.of_batch_norm(model)
        if reference is None:
            _logger.warning(
                "no alignment: %s has no BatchNorm statistics, and no source image is available to "
                "measure its features on. Name source images, or a calibration file of a run that "
                "had some (reservoir.calibration.file)",
                type(model).__name__,
            )
            return
        _logger.info("alignment: the reference is that of %d BatchNorm layers", len(layers))
        self.reference = reference

    def add(self, parent: int) -> None:
        """Open the domain of a new expert, from the moments of images that fitted none.

        Args:
            parent: Index of the previous domain's expert. Its moments are the start if there are no
                such images.
        """
        pending, self._pending = self._pending, []
        self.domains.append(None)
        if self.reference is None:
            return
        domain = self._new_domain()
        before = self.domains[parent]
        if not pending and before is not None:
            moments = before.mean.clone(), before.logvar.clone()
            domain = DomainMoments(*moments, images=self.correction.prior)
        for batch in pending:
            domain.learn(*batch, self.window)
        self.domains[-1] = domain

    def forget(self, index: int) -> None:
        """Reset an expert to the source's moments."""
        if self.domains[index] is not None:
            self.domains[index] = self._new_domain()

    @contextmanager
    def expert(self, index: int, batch: Tensor | None = None) -> Iterator[None]:
        """Align forward passes by the moments of an expert.

        Args:
            index: Index of the expert.
            batch: Images to learn from: the first pass over this tensor moves the moments. Defaults
                to None, no learning.
        """
        with self._by(self.domains[index], batch):
            yield

    @contextmanager
    def waiting(self, batch: Tensor, index: int) -> Iterator[None]:
        """Align the prediction of images that fit no expert; store their moments for a new one."""
        if self.reference is None:
            yield
            return
        with self._observing(self.domains[index], batch) as seen:
            yield
            layers = self.reference.layers
            if len(seen) == len(layers):
                parts = [average_moments(seen[name]) for name in layers]
                mean, logvar = (torch.cat(moments) for moments in zip(*parts, strict=True))
                self._pending.append((mean, logvar, len(batch)))
                del self._pending[: -self.window]

    def settle(self, index: int, images: int) -> None:
        """Count images that an expert has learned from; drop the stored moments of unfit images."""
        self._pending = []
        domain = self.domains[index]
        if domain is not None:
            domain.count(images)

    def is_due(self, index: int) -> bool:
        """Return whether an expert tries another reach on its current batch."""
        domain = self.domains[index]
        if domain is None or self.correction.reach is not None:
            return False
        return domain.start_trial() is not None

    @torch.no_grad()
    def try_reach(self, index: int, forward: Forward, inputs: Tensor) -> int:
        """Continue the trial of an expert with a batch; judge it after its first batches.

        Args:
            index: Index of the expert.
            forward: Function that :meth:`attach` returned, with the expert's parameters loaded.
            inputs: The batch.

        Returns:
            The number of forward passes.
        """
        domain = self.domains[index]
        assert domain is not None
        assert domain.trial is not None, "is_due() starts one"
        trial = domain.trial
        with self._by(trial, inputs):
            tried = forward(inputs)
        trial.count(len(inputs))
        if trial.batches <= SETTLE:
            return 1
        with self._by(domain):
            own = forward(inputs)
        gain = _SURE * float(entropy(own).mean() - entropy(tried).mean())
        passes = 2
        if own.ndim > 2:
            passes = 4
            mirrored = inputs.flip(-1)
            with self._by(trial):
                gain += _agreement(tried, forward(mirrored).flip(-1))
            with self._by(domain):
                gain -= _agreement(own, forward(mirrored).flip(-1))
        trial.gains.append(gain)
        if len(trial.gains) < PROBES:
            return passes
        event = {"expert": index, "images": domain.images, "from": domain.reach, "to": trial.reach}
        taken = domain.end_trial()
        event |= {"gain": sum(trial.gains) / len(trial.gains), "taken": taken}
        self.events = [*self.events, event][-_EVENTS:]
        return passes

    def merge_options(self) -> State:
        return {**asdict(self.correction), "layers": self.layers}

    def corrections(self, index: int) -> dict[str, tuple[Tensor, Tensor]]:
        """Return gain and shift of each layer that an expert corrects, by name."""
        domain = self.domains[index]
        if domain is None or self.reference is None:
            return {}
        names = self.correction.layers(self.reference, domain)
        return {name: self.correction.of(self.reference, domain, name) for name in names}

    def expert_state(self, index: int) -> dict[str, Any]:
        """Return ``reach`` and ``aligned``, the number of images; empty without alignment."""
        domain = self.domains[index]
        if domain is None or self.reference is None:
            return {}
        return {"reach": self.correction.reach_of(domain), "aligned": domain.images}

    def report(self) -> dict[str, Any]:
        """Return reach and mean strength by expert and layer, and the changes of reach."""
        reference, rule, experts = self.reference, self.correction, {}
        for index, domain in enumerate(self.domains):
            if domain is None or reference is None:
                continue
            layers = rule.layers(reference, domain)
            pairs = {name: rule.strengths(reference, domain, name) for name in layers}
            experts[index] = {
                "images": domain.images,
                "reach": rule.reach_of(domain),
                "strength": {n: [round(float(x), 4) for x in ab] for n, ab in pairs.items()},
            }
        count = 0 if reference is None else len(reference.layers)
        return {"layers": count, "experts": experts, "events": list(self.events)}

    def state_dict(self) -> State:
        reference = None if self.reference is None else self.reference.state_dict()
        events = events_by_expert(self.events, len(self.domains))
        experts = [
            {"moments": domain and domain.state_dict(), "events": own}
            for domain, own in zip(self.domains, events, strict=True)
        ]
        stream = {
            "pending": [list(moments) for moments in self._pending],
            "event_order": [event["expert"] for event in self.events],
        }
        state = {"shared": {"reference": reference}, "experts": experts, "stream": stream}
        return copied_to(state, torch.device("cpu"))

    def load_state_dict(self, state: State) -> None:
        state = copied_to(state, self._device)
        reference, experts = state["shared"]["reference"], state["experts"]
        if reference is not None:
            self.reference = Reference(**reference)
        self.domains = [e["moments"] and DomainMoments.of(e["moments"]) for e in experts]
        events = [[{"expert": i, **e} for e in own["events"]] for i, own in enumerate(experts)]
        stream = state["stream"] or {"pending": [], "event_order": None}
        self._pending = [(mean, logvar, n) for mean, logvar, n in stream["pending"]]
        order = stream["event_order"] or [i for i, own in enumerate(events) for _ in own]
        ordered = [iter(own) for own in events]
        self.events = [next(ordered[index]) for index in order]

    @classmethod
    def merge_expert(cls, options: State, one: State, other: State, weight: float) -> State:
        events, moments = one["events"] + other["events"], one["moments"] or other["moments"]
        if one["moments"] and other["moments"]:
            first, second = (DomainMoments.of(entry["moments"]) for entry in (one, other))
            moments = first.merged(second, weight).state_dict()
        return {"moments": moments, "events": events}

    @classmethod
    def progress(cls, options: State, state: State) -> State:
        counts = {
            name: [e["moments"][name] if e["moments"] else 0 for e in state["experts"]]
            for name in _COUNTS
        }
        return counts | {"events": [len(entry["events"]) for entry in state["experts"]]}

    @classmethod
    def delta(cls, options: State, state: State, progress: State) -> State:
        experts = state["experts"]
        before = {name: padded(counts, len(experts), 0) for name, counts in progress.items()}
        newer = []
        for index, entry in enumerate(experts):
            counts = {name: before[name][index] for name in _COUNTS}
            moments = entry["moments"]
            if moments:
                moments = {**moments, **{name: moments[name] - counts[name] for name in counts}}
            newer.append({"moments": moments, "events": entry["events"][before["events"][index] :]})
        return {**state, "experts": newer, "stream": None}

    @classmethod
    def renumber_stream(cls, stream: Any, numbering: Sequence[int], count: int) -> Any:
        return stream and {**stream, "event_order": None}  # merged events are ordered by expert


def _agreement(logits: Tensor, others: Tensor) -> float:
    """Return the fraction of pixels with the same label."""
    return float((logits.argmax(1) == others.argmax(1)).float().mean())
