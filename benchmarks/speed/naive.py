"""A straightforward implementation, for comparison with the real reservoir."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, max_pool2d

from mmseg_reservoir.core.outcome import Outcome
from mmseg_reservoir.core.pipeline import AdaptationPipeline
from mmseg_reservoir.core.reservoir_pipeline import ReservoirPipeline
from mmseg_reservoir.methods.common.mean_teacher import as_logits
from mmseg_reservoir.methods.cotta import Cotta, View, resized
from mmseg_reservoir.style.vgg import StyleEncoder


class PlainVGG:
    """The paper's style, layer by layer, with new memory for each and torch's variances.

    Args:
        encoder: Encoder with its filters and taps.
    """

    def __init__(self, encoder: StyleEncoder) -> None:
        self.taps, self.groups = encoder.taps, encoder.groups
        self.layers = [
            (index, layer.weight.contiguous(), layer.bias) if hasattr(layer, "weight") else None
            for index, layer in enumerate(encoder.features)
        ]
        self.pools = [4, 9, 18, 27, 36]

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Return log-variances of the taps."""
        x, styles = images, []
        for index, layer in enumerate(self.layers):
            if layer is not None:
                x = torch.conv2d(x, layer[1], layer[2], padding=1)
            else:
                x = max_pool2d(x, 2) if index in self.pools else x.relu()
            if index in self.taps:
                styles.append(x.var(dim=(0, 2, 3)).clamp_min(1e-8).log())
        return torch.cat(styles)


class NaiveReservoir(AdaptationPipeline):
    """Experts as lists of tensors, optimizer states deep-copied in and out, two forward passes.

    Args:
        filled: Reservoir of preset published, with its experts, router and encoder.
    """

    def __init__(self, filled: ReservoirPipeline) -> None:
        super().__init__(filled.method)
        self.router, self.encoder = filled.router, filled.encoder
        space, reservoir = self.method.space, filled.reservoir
        self.experts = [
            [piece.clone() for piece in space.split(reservoir.checkout(i)[0])]
            for i in range(len(reservoir))
        ]
        self.states = [copy.deepcopy(reservoir.checkout(i)[1]) for i in range(len(reservoir))]

    def step(self, inputs: Tensor, *, complete: bool = True, domain: str | None = None) -> Outcome:
        """Encode the style, route, adapt, and predict again with the ensemble."""
        route = self.router.route(self.encoder(inputs), may_open=complete, domain=domain)
        self._set(self.experts[route.index])
        self.method.load_domain_state(copy.deepcopy(self.states[route.index]))
        self.method.adapt(inputs)
        values = self.method.space.split(self.method.space.values.detach())
        self.experts[route.index] = [value.clone() for value in values]
        self.states[route.index] = copy.deepcopy(self.method.domain_state())
        blend = [
            torch.einsum("k,k...->...", route.weights, torch.stack(tensors))
            for tensors in zip(*self.experts, strict=True)
        ]
        self._set(blend)
        return Outcome(self.method.predict(inputs), route, k=len(self.experts))

    @torch.no_grad()
    def _set(self, tensors: list[Tensor]) -> None:
        for own, tensor in zip(
            self.method.space.split(self.method.space.values.detach()), tensors, strict=True
        ):
            own.copy_(tensor)

    def infer(self, inputs: Tensor, *, domain: str | None = None) -> Outcome:
        raise NotImplementedError

    def _state(self) -> dict[str, Any]:
        return {}

    def _load_state(self, state: dict[str, Any]) -> None:
        """Do nothing: it is never saved."""


class LiteralCotta(Cotta):
    """CoTTA's segmentation step with separate forward passes for all views.

    Teacher *and* anchor process every view, also mirrored ones, although only the anchor's
    unchanged view is used.
    """

    def loss(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        size = self._single_size(inputs)
        with torch.no_grad():
            seen = self._views(inputs, size)
            with self.space.at(self.source):
                anchor = self._views(inputs, size)[View()]
            single, mean = seen[View()], torch.stack(list(seen.values())).mean(dim=0)
            confident = anchor.amax(dim=1, keepdim=True) > self.confidence
            composite = torch.where(confident, single, mean)
        self.take_student()
        logits = resized(self.forward(inputs), composite.shape[-2:])
        return as_logits(composite), cross_entropy(logits, composite.argmax(dim=1))

    def _views(self, inputs: Tensor, size: tuple[int, ...]) -> dict[View, Tensor]:
        return {view: view.probabilities(self.forward, inputs, size) for view in self.views}

    def _single_size(self, inputs: Tensor) -> tuple[int, ...]:
        return tuple(int(length * self.label_scale + 0.5) for length in inputs.shape[-2:])
