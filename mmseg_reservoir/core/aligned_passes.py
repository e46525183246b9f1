"""Forward passes with features that are corrected by the moments of a domain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from .correction import Correction
from .domain_moments import DomainMoments
from .moments import Reference, average_moments, channel_moments, norm_layers

Forward = Callable[[Tensor], Tensor]
INPUT = "input"
"""Layer name of the input channels."""


class AlignedPasses:
    """Hooks that measure and correct the output of normalization layers in forward passes.

    Outside of the contexts of this class the model is unchanged.

    Args:
        correction: Rule from moments to the correction.
        layers: Layers to correct: ``"norms"``, ``"input"`` or ``"both"``.
    """

    def __init__(self, correction: Correction, layers: str) -> None:
        self.correction, self.layers = correction, layers
        self.reference: Reference | None = None
        self._device = torch.device("cpu")  # of the model
        self._mode = "off"  # or "measure", "wait", "align", "learn"
        self._batch: Tensor | None = None
        self._current: DomainMoments | None = None
        self._seen: dict[str, list[tuple[Tensor, Tensor]]] = {}  # by layer, of the current pass
        self._before: tuple[Tensor, Tensor] | None = None  # moments at the start of the pass

    def attach(self, model: nn.Module, forward: Forward) -> Forward:
        """Hook into the normalization layers of a model; return the forward function to use."""
        self._device = next((p.device for p in model.parameters()), self._device)
        if self.layers != INPUT:
            for name, module in norm_layers(model).items():
                module.register_forward_hook(partial(self._correct_output, name))
        return partial(self._forward, forward)

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Measure the reference in this context's forward passes, which are of source images."""
        self._mode, self._seen = "measure", {}
        try:
            yield
        finally:
            seen, self._mode, self._seen = self._seen, "off", {}
        if seen and sum(len(mean) for mean, _ in next(iter(seen.values()))) > 1:
            self.reference = Reference.of(seen)

    @contextmanager
    def _by(self, domain: DomainMoments | None, batch: Tensor | None = None) -> Iterator[None]:
        """Align forward passes by a domain's moments; None leaves the model unchanged."""
        self._mode, self._batch, self._current = "off" if domain is None else "align", batch, domain
        try:
            yield
        finally:
            self._mode, self._batch, self._current = "off", None, None

    @contextmanager
    def _observing(
        self, domain: DomainMoments | None, batch: Tensor
    ) -> Iterator[dict[str, list[tuple[Tensor, Tensor]]]]:
        """Align by a domain's moments without learning; yield the measured moments by layer."""
        self._mode, self._batch, self._current, self._seen = "wait", batch, domain, {}
        try:
            yield self._seen
        finally:
            self._mode, self._batch, self._current, self._seen = "off", None, None, {}

    def _forward(self, forward: Forward, inputs: Tensor) -> Tensor:
        """Run the model; only the first pass over the batch moves the domain's moments."""
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
        """Return an output after the correction of the current domain."""
        if self._mode == "off":
            return output
        domain = self._current
        corrects = domain is not None and self._is_within_reach(name, domain)
        # Layers beyond the reach are not learned: the trial of a larger reach measures them.
        if self._mode in ("measure", "wait") or (self._mode == "learn" and corrects):
            self._seen.setdefault(name, []).append(channel_moments(output, axis))
        if domain is None or not corrects:
            return output
        images = 0
        if self._mode == "learn":
            assert self._batch is not None
            images = len(self._batch)
            self._learn(domain, name, images)
        assert self.reference is not None
        gain, shift = self.correction.of(self.reference, domain, name, images)
        shape = [1] * output.ndim
        shape[axis] = -1
        gain, shift = gain.view(shape).to(output.dtype), shift.view(shape).to(output.dtype)
        return torch.addcmul(shift, output, gain)

    def _is_within_reach(self, name: str, domain: DomainMoments) -> bool:
        assert self.reference is not None
        return self.reference.position(name) < self.correction.reach_of(domain)

    def _learn(self, domain: DomainMoments, name: str, images: int) -> None:
        """Update a layer's moments with the batch's, averaged over the layer's calls so far."""
        assert self.reference is not None
        assert self._before is not None
        where, weight = self.reference.where(name), domain.weight_of(images, self.correction.window)
        seen = average_moments(self._seen[name])
        for own, before, new in zip((domain.mean, domain.logvar), self._before, seen, strict=True):
            new = torch.where(torch.isfinite(new), new, before[where])
            own[where] = torch.lerp(before[where], new, weight)

    def _new_domain(self) -> DomainMoments:
        assert self.reference is not None
        return DomainMoments(self.reference.mean.clone(), self.reference.logvar.clone())


def _axis(module: nn.Module, output: Tensor) -> int:
    """Return the axis of the channels in the output of a layer."""
    # Subclasses that normalize maps (N, C, H, W) over C permute them to do so.
    last = isinstance(module, nn.LayerNorm) and type(module).forward is nn.LayerNorm.forward
    tokens = isinstance(module, nn.LayerNorm) and output.ndim == 3
    return output.ndim - 1 if last or tokens else 1
