"""Alignment: each expert corrects the feature moments of its domain towards those of the source.

A forward pass is all that it needs. At the output of a normalization layer, per channel, let ``m``
and ``v`` be mean and log-variance of the source (the *reference*), ``m_d`` and ``v_d`` those of the
expert's domain. The expert replaces the output ``y`` by

    (y - m_d) exp(-b (v_d - v) / 2) + m_d - a (m_d - m)

which moves the moments of the domain the shares ``a`` and ``b`` of their way to the reference. Both
follow from evidence and depth:

    a = w r / (r + kappa),    w = max(0, 1 - p / reach)

``r`` is the mean over channels of ``(m_d - m)^2 / s^2``, ``s^2`` the variance of a channel's mean
between source images, ``p`` in [0, 1) the position of the layer among all layers; ``b`` likewise,
by the log-variances. Early layers encode how an image looks, deep ones also what it shows, which
must not be aligned away. How deep to go depends on the network: each expert finds its ``reach`` by
trials (:class:`DomainMoments`).

The moments are measured in the pass that they are used in, so deeper layers see corrected inputs.
They lean on the source: ``m_d`` is the reference, moved ``n / (n + prior)`` of the way to the
average of the domain's ``n`` images, of which at most ``window`` count. Full trust is too much on
real frames, whose content differs between domains, too.
The correction is affine per channel: :func:`folded` moves it into the layer's weight and bias.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ReservoirError
from ..options import register
from .losses import entropy
from .moments import (
    PROBES,
    SETTLE,
    DomainMoments,
    Reference,
    average_moments,
    channel_moments,
    channels_of,
    norm_layers,
)
from .state import copied_to

Forward = Callable[[Tensor], Tensor]
INPUT = "input"
"""The name of the input channels among the layers."""
_SURE = 0.15  # worth of one nat of entropy, in units of mirror agreement
_LARGEST_STEP = 3.0  # of a log-variance, so that no gain is beyond exp(1.5)
_EVENTS = 1000  # that are remembered
_logger = logging.getLogger(__name__)


def folded(
    weight: Tensor | None, bias: Tensor | None, gain: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a layer that gives the corrected output by itself."""
    weight = gain.clone() if weight is None else weight * gain.to(weight)
    bias = shift.clone() if bias is None else bias * gain.to(bias) + shift.to(bias)
    return weight, bias


@register("alignment", "moments")
class Alignment:
    """Corrects the moments of normalization layers, each expert by those of its own domain.

    Expert 0, the source's, is never aligned. Outside :meth:`expert` the model is the plain one.

    Args:
        kappa: Evidence at which a layer takes half of its largest strength. Defaults to 1.
        reach: Fixed depth, as a share of the layers, at which the strength has fallen to 0;
            None lets every expert find its own, beginning with 0.5. Defaults to None.
        strength: Fixed strength of every layer within reach, instead of the one by evidence.
            Defaults to None.
        window: Number of batches that the moments remember: up to here they are a plain average
            over images, from here on a moving one. Defaults to 20.
        prior: Number of images that the reference counts for. Defaults to 10.
        layers: ``"norms"``, ``"input"`` for the input channels alone, or ``"both"``.
            Defaults to ``"norms"``.
    """

    def __init__(
        self,
        kappa: float = 1.0,
        reach: float | None = None,
        strength: float | None = None,
        window: int = 20,
        prior: int = 10,
        layers: str = "norms",
    ) -> None:
        if kappa <= 0 or window < 1 or prior < 0 or (reach is not None and reach <= 0):
            raise ReservoirError(
                "alignment needs kappa > 0, reach > 0 (or None), window >= 1 and prior >= 0, got "
                f"{kappa}, {reach}, {window} and {prior}"
            )
        if strength is not None and not 0 < strength <= 1:
            raise ReservoirError(f"alignment.strength must be in (0, 1], or None, got {strength}")
        if layers not in ("norms", INPUT, "both"):
            raise ReservoirError(
                f'alignment.layers must be "norms", "input" or "both", got {layers!r}'
            )
        self.kappa, self.fixed_reach, self.strength = kappa, reach, strength
        self.window, self.prior, self.layers = window, prior, layers
        self.reference: Reference | None = None
        self.domains: list[DomainMoments | None] = [None]
        """By expert; None where there is nothing to align by."""
        self.events: list[dict[str, Any]] = []
        self._slices: dict[str, tuple[slice, float]] = {}
        self._seen: dict[str, list[tuple[Tensor, Tensor]]] = {}  # by layer, of the current pass
        self._before: tuple[Tensor, Tensor] | None = None  # moments at the start of the pass
        self._pending: list[tuple[Tensor, Tensor, int]] = []  # of batches that fit no expert yet
        self._current: DomainMoments | None = None
        self._mode = "off"  # or "measure", "align", "learn"
        self._batch: Tensor | None = None

    # Set-up

    def attach(self, model: nn.Module, forward: Forward) -> Forward:
        """Watch the normalization layers of a model; return the forward function to use."""
        if self.layers != INPUT:
            for name, module in norm_layers(model).items():
                module.register_forward_hook(partial(self._correct_output, name))
        return partial(self._forward, forward)

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Measure the reference: within, forward passes are those of source images."""
        self._mode, self._seen = "measure", {}
        try:
            yield
        finally:
            seen, self._mode, self._seen = self._seen, "off", {}
        if seen and sum(len(mean) for mean, _ in next(iter(seen.values()))) > 1:
            self.set_reference(Reference.of(seen))

    def take_reference(self, model: nn.Module, saved: Mapping[str, Any] | None) -> None:
        """Take a saved reference of this model, or that of its BatchNorm layers.

        Without either the stream runs without alignment, and a warning says so.
        """
        layers = {name: channels_of(module) for name, module in norm_layers(model).items()}
        if not layers and self.layers != INPUT:
            _logger.info("alignment: %s has no layer to align", type(model).__name__)
            return
        known = {INPUT: 3, **layers}
        if saved is not None and saved["layers"].items() <= known.items():
            self.set_reference(Reference(**saved))
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
        self.set_reference(reference)

    def set_reference(self, reference: Reference) -> None:
        """Take the moments of the source."""
        self.reference = reference
        self._slices, start = {}, 0
        for index, (name, size) in enumerate(reference.layers.items()):
            self._slices[name] = slice(start, start + size), index / len(reference.layers)
            start += size

    # The stream

    def add(self, parent: int) -> None:
        """Open the domain of a new expert by the images that fitted none.

        Args:
            parent: The expert that was the domain's before, whose moments it starts from if no
                image waits.
        """
        pending, self._pending = self._pending, []
        self.domains.append(None)
        if self.reference is None:
            return
        domain = self._new_domain()
        before = self.domains[parent]
        if not pending and before is not None:
            domain = DomainMoments(before.mean.clone(), before.logvar.clone(), self.prior)
        for mean, logvar, images in pending:
            weight = domain.weight_of(images, self.window)
            domain.mean.lerp_(mean, weight)
            domain.logvar.lerp_(logvar, weight)
            domain.count(images)
        self.domains[-1] = domain

    def forget(self, index: int) -> None:
        """Reset an expert to the source's moments."""
        if self.domains[index] is not None:
            self.domains[index] = self._new_domain()

    @contextmanager
    def expert(self, index: int, batch: Tensor | None = None) -> Iterator[None]:
        """Align forward passes by the moments of an expert.

        Args:
            index: The expert.
            batch: The images to learn from: the first pass over exactly these moves the moments.
                None only predicts.
        """
        with self._by(self.domains[index], batch):
            yield

    @contextmanager
    def _by(self, domain: DomainMoments | None, batch: Tensor | None = None) -> Iterator[None]:
        """Align forward passes by some moments; None leaves the model plain."""
        self._mode, self._batch, self._current = "align", batch, domain
        if domain is None:
            self._mode = "off"
        try:
            yield
        finally:
            self._mode, self._batch, self._current = "off", None, None

    @contextmanager
    def waiting(self, batch: Tensor, index: int) -> Iterator[None]:
        """Predict images that fit no expert: their moments wait until a domain is opened."""
        if self.reference is None:
            yield
            return
        self._current = self.domains[index]
        self._mode, self._batch, self._seen = "wait", batch, {}
        try:
            yield
            if len(self._seen) == len(self._slices):
                parts = [average_moments(self._seen[name]) for name in self._slices]
                mean, logvar = (torch.cat(moments) for moments in zip(*parts, strict=True))
                self._pending.append((mean, logvar, len(batch)))
                del self._pending[: -self.window]
        finally:
            self._mode, self._batch, self._current, self._seen = "off", None, None, {}

    def settle(self, index: int, images: int) -> None:
        """Count images that an expert has learned from; none waits for a domain any more."""
        self._pending = []
        domain = self.domains[index]
        if domain is not None:
            domain.count(images)

    def is_due(self, index: int) -> bool:
        """Return whether an expert tries another reach at its current batch."""
        domain = self.domains[index]
        if domain is None or self.fixed_reach is not None:
            return False
        return domain.start_trial() is not None

    @torch.no_grad()
    def try_reach(self, index: int, forward: Forward, inputs: Tensor) -> int:
        """Let the trial of an expert learn from a batch; judge and end it when it is time.

        Args:
            index: The expert.
            forward: The model with the expert's parameters, as :meth:`attach` returned it.
            inputs: The batch.

        Returns:
            The number of forward passes that it took.
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

    # The passes

    def _forward(self, forward: Forward, inputs: Tensor) -> Tensor:
        """Run the model; the first pass over the batch of a step is the one that is learned."""
        learns = self._mode == "align" and inputs is self._batch
        if learns:
            assert self._current is not None
            self._mode, self._seen = "learn", {}
            self._before = self._current.mean.clone(), self._current.logvar.clone()
        try:
            if self.layers != "norms":
                inputs = self._corrected(INPUT, inputs, 1)
            return forward(inputs)
        finally:
            if learns:
                self._mode, self._batch, self._seen, self._before = "align", None, {}, None

    def _correct_output(
        self, name: str, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor
    ) -> Tensor | None:
        """Measure and correct the output of a layer."""
        return None if self._mode == "off" else self._corrected(name, output, _axis(module, output))

    def _corrected(self, name: str, output: Tensor, axis: int) -> Tensor:
        """Return an output with the moments that an expert gives it."""
        if self._mode == "off":
            return output
        domain = self._current
        corrects = domain is not None and self._position(name) < self._reach(domain)
        # Beyond the reach nothing is measured either: the trial of a larger one does.
        if self._mode in ("measure", "wait") or (self._mode == "learn" and corrects):
            self._seen.setdefault(name, []).append(channel_moments(output, axis))
        if domain is None or not corrects:
            return output
        images = 0
        if self._mode == "learn":
            assert self._batch is not None
            images = len(self._batch)
            self._learn(domain, name, images)
        gain, shift = self._correction(domain, name, images)
        shape = [1] * output.ndim
        shape[axis] = -1
        gain, shift = gain.view(shape).to(output.dtype), shift.view(shape).to(output.dtype)
        return torch.addcmul(shift, output, gain)

    def _position(self, name: str) -> float:
        """Return the position of a layer in [0, 1); one without a reference is out of reach."""
        return self._slices[name][1] if name in self._slices else math.inf

    def _learn(self, domain: DomainMoments, name: str, images: int) -> None:
        """Move the moments of a layer by those of the batch: the mean over its calls so far."""
        assert self._before is not None
        where, weight = self._slices[name][0], domain.weight_of(images, self.window)
        seen = average_moments(self._seen[name])
        for own, before, new in zip((domain.mean, domain.logvar), self._before, seen, strict=True):
            new = torch.where(torch.isfinite(new), new, before[where])
            own[where] = torch.lerp(before[where], new, weight)

    def _reach(self, domain: DomainMoments) -> float:
        return domain.reach if self.fixed_reach is None else self.fixed_reach

    def _offsets(self, domain: DomainMoments, name: str, images: int = 0) -> tuple[Tensor, ...]:
        """Return how far a domain's means and log-variances at a layer are from the source's.

        Args:
            domain: The domain.
            name: The layer.
            images: Number of images that were learned from and have not been counted yet.
        """
        assert self.reference is not None
        where, images = self._slices[name][0], min(domain.images + images, self.window)
        trust = images / (images + self.prior)
        mean = trust * (domain.mean[where] - self.reference.mean[where])
        logvar = trust * (domain.logvar[where] - self.reference.logvar[where])
        return mean, logvar

    def _strength(
        self, name: str, reach: float, offsets: tuple[Tensor, ...]
    ) -> tuple[Tensor | float, Tensor | float]:
        """Return ``a`` and ``b`` of a layer for offsets from the reference."""
        where, position = self._slices[name]
        if self.strength is not None:
            return self.strength, self.strength
        assert self.reference is not None
        spreads = self.reference.mean_spread[where], self.reference.logvar_spread[where]
        depth = 1 - position / reach
        evidence = [(x.square() / s).mean() for x, s in zip(offsets, spreads, strict=True)]
        a, b = (depth * r / (r + self.kappa) for r in evidence)
        return a, b

    def _correction(
        self, domain: DomainMoments, name: str, images: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Return the gain and shift of every channel of a layer."""
        assert self.reference is not None
        offsets = self._offsets(domain, name, images)
        a, b = self._strength(name, self._reach(domain), offsets)
        gain = (-0.5 * b * offsets[1].clamp(-_LARGEST_STEP, _LARGEST_STEP)).exp()
        mean = self.reference.mean[self._slices[name][0]] + offsets[0]
        return gain, mean - a * offsets[0] - mean * gain

    def _new_domain(self) -> DomainMoments:
        assert self.reference is not None
        return DomainMoments(self.reference.mean.clone(), self.reference.logvar.clone())

    # What others read

    @property
    def options(self) -> dict[str, Any]:
        """The options that it was made with."""
        names = ("kappa", "strength", "window", "prior", "layers")
        return {"reach": self.fixed_reach, **{name: getattr(self, name) for name in names}}

    def corrections(self, index: int) -> dict[str, tuple[Tensor, Tensor]]:
        """Return gain and shift by layer, of the layers that an expert corrects."""
        domain = self.domains[index]
        if domain is None:
            return {}
        names = [n for n, (_, place) in self._slices.items() if place < self._reach(domain)]
        return {name: self._correction(domain, name) for name in names}

    def report(self) -> dict[str, Any]:
        """Return reach and mean strength by expert and layer, and the changes of reach."""
        experts = {}
        for index, domain in enumerate(self.domains):
            if domain is None:
                continue
            strengths = {}
            for name, (_, position) in self._slices.items():
                if position < self._reach(domain):
                    pair = self._strength(name, self._reach(domain), self._offsets(domain, name))
                    strengths[name] = [round(float(strength), 4) for strength in pair]
            experts[index] = {
                "images": domain.images,
                "reach": self._reach(domain),
                "strength": strengths,
            }
        return {"layers": len(self._slices), "experts": experts, "events": list(self.events)}

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next step depends on."""
        reference = None if self.reference is None else self.reference.state_dict()
        shared = {
            "reference": reference,
            "pending": [list(moments) for moments in self._pending],
            "events": [dict(event) for event in self.events],
        }
        experts = [None if d is None else d.state_dict() for d in self.domains]
        return copied_to({"shared": shared, "experts": experts}, torch.device("cpu"))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        device = torch.device("cpu") if self.reference is None else self.reference.mean.device
        shared = copied_to(state["shared"], device)
        if shared["reference"] is not None:
            self.set_reference(Reference(**shared["reference"]))
        self._pending = [(mean, logvar, n) for mean, logvar, n in shared["pending"]]
        self.events = shared["events"]
        experts = copied_to(state["experts"], device)
        self.domains = [None if own is None else DomainMoments.of(own) for own in experts]


def _axis(module: nn.Module, output: Tensor) -> int:
    """Return the axis of the channels in the output of a layer."""
    # Subclasses that normalize maps (N, C, H, W) over C permute them to do so.
    last = isinstance(module, nn.LayerNorm) and type(module).forward is nn.LayerNorm.forward
    tokens = isinstance(module, nn.LayerNorm) and output.ndim == 3
    return output.ndim - 1 if last or tokens else 1


def _agreement(logits: Tensor, others: Tensor) -> float:
    """Return the share of pixels with the same label."""
    return float((logits.argmax(1) == others.argmax(1)).float().mean())
