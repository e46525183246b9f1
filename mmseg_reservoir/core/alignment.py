"""Alignment: each expert corrects the feature moments of its domain towards those of the source.

A forward pass is all that it needs. At the output of a normalization layer, per channel, let ``m``
and ``v`` be mean and log-variance of the source (the *reference*), ``m_d`` and ``v_d`` those of the
expert's domain. The expert replaces the output ``y`` by

    (y - m_d) exp(-b (v_d - v) / 2) + m_d - a (m_d - m)

which moves the moments of the domain the shares ``a`` and ``b`` of their way to the reference. Both
follow from evidence and depth:

    a = w r / (r + kappa),    r = mean over channels of (m_d - m)^2 / s^2,    w = max(0, 1 - p / reach)

``s^2`` is the variance of the channel's mean between source images, ``p`` in [0, 1) the position of
the layer among all layers; ``b`` likewise, by the log-variances. Early layers encode how an image
looks, deep ones also what it shows, which must not be aligned away. How deep to go depends on the
network: each expert finds its ``reach`` by probes (:class:`DomainMoments`).

The moments are measured in the pass that they are used in, so deeper layers see corrected inputs.
The correction is affine per channel: :func:`folded` moves it into the layer's weight and bias.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from ..errors import ReservoirError
from ..options import register
from .losses import entropy
from .state import copied_to

Forward = Callable[[Tensor], Tensor]
INPUT = "input"
"""The name of the input channels among the layers."""
REACHES = (0.0, 0.25, 0.5, 1.0, 2.0)
"""What an expert chooses its reach from. 0: no alignment. 2: half strength at the last layer."""
_START = REACHES.index(0.5)
_SETTLE = 8  # batches after a change of reach, before the moments describe the new reach
_TRIAL = 40  # batches of an expert before it tries another reach
_PROBES = 4  # probes that a reach is judged by
_INTERVAL = 4  # batches between two probes while a reach is judged
_AGAIN = 1000  # batches after which a chosen reach is judged again
_SURE = 0.15  # worth of one nat of entropy, in units of mirror agreement
_HARM = -0.03  # benefit below which an expert tries a smaller reach
_LARGEST_STEP = 3.0  # of a log-variance, so that no gain is beyond exp(1.5)
_MEAN_FLOOR, _LOGVAR_FLOOR = 1e-3, 1e-2  # least spread between source images, see Reference
_EPSILON = 1e-6
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reference:
    """The moments of the source at every layer, as flat vectors over all channels of all layers.

    Args:
        layers: Number of channels by the name of the layer, in the order of the forward pass.
        mean: Mean over source images of a channel's mean.
        logvar: Mean over source images of the logarithm of a channel's variance.
        mean_spread: Variance of the mean between source images, at least a thousandth of the
            channel's variance: a channel that is constant in the source is no evidence.
        logvar_spread: Variance of the log-variance between source images, at least 0.01.
    """

    layers: Mapping[str, int]
    mean: Tensor
    logvar: Tensor
    mean_spread: Tensor
    logvar_spread: Tensor

    @classmethod
    def of(cls, images: Mapping[str, list[tuple[Tensor, Tensor]]]) -> Reference:
        """Return the reference of measured images: by layer, means and log-variances ``(N, C)``."""
        layers, vectors = {}, []
        for name, parts in images.items():
            mean, logvar = (torch.cat(moments) for moments in zip(*parts, strict=True))
            layers[name] = mean.shape[1]
            mean_floor = _MEAN_FLOOR * logvar.mean(0).exp()
            vectors.append(
                (
                    mean.mean(0),
                    logvar.mean(0),
                    mean.var(0).maximum(mean_floor),
                    logvar.var(0).clamp(min=_LOGVAR_FLOOR),
                )
            )
        return cls(layers, *(torch.cat(parts) for parts in zip(*vectors, strict=True)))

    @classmethod
    def of_batch_norm(cls, model: nn.Module) -> Reference | None:
        """Return what BatchNorm's own parameters say of the source; None without such layers.

        The output of a BatchNorm layer has mean ``bias`` and deviation ``|weight|`` on the data it
        was trained on. The spread between images is not known: a tenth of the variance for means
        and 0.3 for log-variances, about what Cityscapes frames show in two networks.
        """
        norms = {
            name: module
            for name, module in norm_layers(model).items()
            if isinstance(module, _NormBase) and module.running_mean is not None and module.affine
        }
        if not norms:
            return None
        layers = {name: module.num_features for name, module in norms.items()}
        mean = torch.cat([module.bias.detach() for module in norms.values()])
        variance = torch.cat([module.weight.detach().square() for module in norms.values()])
        variance = variance + _EPSILON
        spread = torch.full_like(mean, 0.3)
        return cls(layers, mean.clone(), variance.log(), 0.1 * variance, spread)

    def to(self, device: torch.device) -> Reference:
        """Return a copy on a device."""
        return Reference(self.layers, *(tensor.to(device) for tensor in self.tensors.values()))

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The vectors by name."""
        return {name: value for name, value in vars(self).items() if name != "layers"}

    def state_dict(self) -> dict[str, Any]:
        """Return names, sizes and vectors as plain data."""
        return {"layers": dict(self.layers), **{k: v.clone() for k, v in self.tensors.items()}}


@dataclass
class DomainMoments:
    """The moments of one expert's domain, and how deep they are used.

    An expert starts with a reach of 0.5. After 40 batches it tries larger reaches, one at a time,
    and at any time a smaller one if alignment harms. It judges each by the *benefit* at four
    probes: how much more often a pixel keeps its label in the mirrored image than without
    alignment, plus 0.15 times the loss of entropy in nats. Then it takes the best one, and judges
    that again every 1000 batches.

    Args:
        mean: Mean of every channel.
        logvar: Log-variance of every channel.
        images: Number of images behind the moments.
        batches: Number of batches that they came in.
        level: Index of the reach in ``REACHES``.
        since: Batches since the reach last changed.
        due: ``since`` at which the next probe is made.
        benefits: Measured benefits of the current reach.
        scores: Mean benefit by level, of the levels that were judged.
    """

    mean: Tensor
    logvar: Tensor
    images: int = 0
    batches: int = 0
    level: int = _START
    since: int = 0
    due: int = _SETTLE
    benefits: list[float] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def reach(self) -> float:
        """The depth at which the strength has fallen to 0, as a share of the layers."""
        return REACHES[self.level]

    def judge(self, benefit: float) -> bool:
        """Take in the result of a probe; return whether the reach changes."""
        self.benefits = [*self.benefits, benefit][-_PROBES:]
        self.due = self.since + _INTERVAL
        if len(self.benefits) < _PROBES:
            return False
        score = sum(self.benefits) / _PROBES
        if score >= _HARM and self.batches < _TRIAL:
            self.due = self.since + _TRIAL - self.batches
            return False
        self.scores[str(self.level)] = score
        self.benefits = []
        above = self.level + 1
        if score < _HARM:
            level = self.level - 1
        elif above < len(REACHES) and str(above) not in self.scores:
            level = above
        else:
            level = int(max(self.scores, key=lambda key: self.scores[key]))
            self.due = self.since + _AGAIN
        if level == self.level:
            return False
        self.due = max(self.due - self.since, _SETTLE)
        self.level, self.since = level, 0
        return True


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
        window: Number of images that the moments remember: up to here they are a plain average,
            from here on a moving one. Defaults to 20.
        prior: Number of source images that the reference counts for in a young domain.
            Defaults to 10.
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
        self._pending: list[tuple[Tensor, Tensor]] = []  # of images that fit no expert yet
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
        layers = {name: _channels(module) for name, module in norm_layers(model).items()}
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
            domain.mean.copy_(before.mean)
            domain.logvar.copy_(before.logvar)
        for moments in pending:
            rate = self._rate(domain, 1)
            domain.mean.lerp_(moments[0], rate)
            domain.logvar.lerp_(moments[1], rate)
            domain.images += 1
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
        self._current = self.domains[index]
        if self._current is None:
            yield
            return
        self._mode, self._batch = "align", batch
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
                parts = [_average(self._seen[name]) for name in self._slices]
                joined = tuple(torch.cat(moments) for moments in zip(*parts, strict=True))
                self._pending = [*self._pending, joined][-self.window :]
        finally:
            self._mode, self._batch, self._current, self._seen = "off", None, None, {}

    def settle(self, index: int, images: int) -> None:
        """Count images that an expert has learned from; none waits for a domain any more."""
        self._pending = []
        domain = self.domains[index]
        if domain is not None:
            domain.images += images
            domain.batches += 1
            domain.since += 1

    def is_due(self, index: int) -> bool:
        """Return whether the next batch of an expert should be a probe."""
        domain = self.domains[index]
        return domain is not None and self.fixed_reach is None and domain.since >= domain.due

    def probe(self, index: int, forward: Forward, inputs: Tensor, aligned: Tensor) -> None:
        """Compare the predictions of a batch with and without alignment, and adjust the reach.

        Args:
            index: The expert.
            forward: The model with the expert's parameters.
            inputs: The batch.
            aligned: Logits of the batch with alignment.
        """
        domain = self.domains[index]
        assert domain is not None, "is_due() has said so"
        plain = forward(inputs)
        benefit = _SURE * float(entropy(plain).mean() - entropy(aligned).mean())
        if aligned.ndim > 2:
            mirrored = inputs.flip(-1)
            benefit -= _agreement(plain, forward(mirrored).flip(-1))
            with self.expert(index):
                benefit += _agreement(aligned, forward(mirrored).flip(-1))
        before = domain.reach
        if domain.judge(benefit):
            event = {"images": domain.images, "expert": index, "from": before, "to": domain.reach}
            self.events = [*self.events, event][-1000:]

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
        if self._mode != "measure" and name not in self._slices:
            return output  # a layer without a reference
        if self._mode != "align":
            self._seen.setdefault(name, []).append(_moments(output, axis))
        domain = self._current
        if self._mode == "measure" or domain is None:
            return output
        where, position = self._slices[name]
        if self._mode == "learn":
            self._learn(domain, name, len(output))
        if position >= self._reach(domain):
            return output
        gain, shift = self._correction(domain, name)
        shape = [1] * output.ndim
        shape[axis] = -1
        gain, shift = gain.view(shape).to(output.dtype), shift.view(shape).to(output.dtype)
        return torch.addcmul(shift, output, gain)

    def _learn(self, domain: DomainMoments, name: str, images: int) -> None:
        """Move the moments of a layer by those of the batch: the mean over its calls so far."""
        assert self._before is not None
        where, rate = self._slices[name][0], self._rate(domain, images)
        pairs = zip((domain.mean, domain.logvar), self._before, _average(self._seen[name]))
        for own, before, new in pairs:
            new = torch.where(torch.isfinite(new), new, before[where])
            own[where] = torch.lerp(before[where], new, rate)

    def _rate(self, domain: DomainMoments, images: int) -> float:
        """Return the weight of some new images in the moments."""
        return images / (self.prior + max(min(domain.images + images, self.window), images))

    def _reach(self, domain: DomainMoments) -> float:
        return domain.reach if self.fixed_reach is None else self.fixed_reach

    def _strength(self, domain: DomainMoments, name: str) -> tuple[Tensor | float, Tensor | float]:
        """Return ``a`` and ``b`` of a layer."""
        where, position = self._slices[name]
        reach = self._reach(domain)
        depth = max(0.0, 1 - position / reach) if reach else 0.0
        if self.strength is not None:
            strength = self.strength if position < reach else 0.0
            return strength, strength
        assert self.reference is not None
        ref = self.reference
        shift = (domain.mean[where] - ref.mean[where]).square() / ref.mean_spread[where]
        scale = (domain.logvar[where] - ref.logvar[where]).square() / ref.logvar_spread[where]
        a, b = (depth * r / (r + self.kappa) for r in (shift.mean(), scale.mean()))
        return a, b

    def _correction(self, domain: DomainMoments, name: str) -> tuple[Tensor, Tensor]:
        """Return the gain and shift of every channel of a layer."""
        assert self.reference is not None
        where = self._slices[name][0]
        a, b = self._strength(domain, name)
        mean = domain.mean[where]
        step = (domain.logvar[where] - self.reference.logvar[where]).clamp(
            -_LARGEST_STEP, _LARGEST_STEP
        )
        gain = (-0.5 * b * step).exp()
        return gain, mean - a * (mean - self.reference.mean[where]) - mean * gain

    def _new_domain(self) -> DomainMoments:
        assert self.reference is not None
        return DomainMoments(self.reference.mean.clone(), self.reference.logvar.clone())

    # What others read

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
                    strengths[name] = [round(float(s), 4) for s in self._strength(domain, name)]
            experts[index] = {
                "images": domain.images,
                "reach": self._reach(domain),
                "benefit": {str(REACHES[int(k)]): v for k, v in domain.scores.items()},
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
        experts = [None if d is None else dict(vars(d)) for d in self.domains]
        return copied_to({"shared": shared, "experts": experts}, torch.device("cpu"))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        device = torch.device("cpu") if self.reference is None else self.reference.mean.device
        shared = copied_to(state["shared"], device)
        if shared["reference"] is not None:
            self.set_reference(Reference(**shared["reference"]))
        self._pending = [(mean, logvar) for mean, logvar in shared["pending"]]
        self.events = shared["events"]
        experts = copied_to(state["experts"], device)
        self.domains = [None if own is None else DomainMoments(**own) for own in experts]


def norm_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Return the normalization layers with one weight per channel, by name."""
    kinds = (_NormBase, nn.GroupNorm, nn.LayerNorm)
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, kinds)
        and (not isinstance(module, nn.LayerNorm) or len(module.normalized_shape) == 1)
    }


def _channels(module: Any) -> int:
    """Return the number of channels of a normalization layer."""
    if isinstance(module, nn.LayerNorm):
        return module.normalized_shape[0]
    return module.num_channels if isinstance(module, nn.GroupNorm) else module.num_features


def folded(
    weight: Tensor | None, bias: Tensor | None, gain: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a layer that gives the corrected output by itself."""
    weight = gain.clone() if weight is None else weight * gain.to(weight)
    bias = shift.clone() if bias is None else bias * gain.to(bias) + shift.to(bias)
    return weight, bias


def _axis(module: nn.Module, output: Tensor) -> int:
    """Return the axis of the channels in the output of a layer."""
    # Subclasses that normalize maps (N, C, H, W) over C permute them to do so.
    last = isinstance(module, nn.LayerNorm) and type(module).forward is nn.LayerNorm.forward
    return output.ndim - 1 if last or output.ndim == 3 and isinstance(module, nn.LayerNorm) else 1


def _moments(output: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return mean and log-variance of every channel of every image, ``(N, C)`` each."""
    dims = [dim for dim in range(1, output.ndim) if dim != axis]
    values = output.detach().float()
    if not dims:  # one value per channel: the batch is all there is
        return values, torch.zeros_like(values)
    var, mean = torch.var_mean(values, dims, correction=0)
    return mean, (var + _EPSILON).log()


def _average(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return the mean over all images of all calls of a layer."""
    mean, logvar = (torch.cat(moments).mean(0) for moments in zip(*parts, strict=True))
    return mean, logvar


def _agreement(logits: Tensor, others: Tensor) -> float:
    """Return the share of pixels with the same label."""
    return float((logits.argmax(1) == others.argmax(1)).float().mean())
