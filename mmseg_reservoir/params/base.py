"""What adapts: a selection of a model's parameters, stored as one flat vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

import torch
from torch import Tensor, nn

from ..errors import ReservoirError


class ParamSpace:
    """The adapted parameters of a model as views of one flat buffer.

    After construction only these parameters require gradients. ``values`` is the flat buffer: a
    leaf tensor that an optimizer can step, so 322 small tensors cost one kernel, and loading or
    storing an expert is one copy. It suits optimizers that work element by element (SGD, Adam,
    AdamW and the like).

    Args:
        model: The model; already on its device, since moving it later would cut the views.
        selected: Parameters by name, for example from :func:`norm_affine`.
    """

    def __init__(self, model: nn.Module, selected: Mapping[str, nn.Parameter]) -> None:
        _check_weights(model)
        model.requires_grad_(False)
        self.model = model
        self.names = list(selected)
        self._parameters: list[Tensor] = list(selected.values())
        self._flatten()
        self.adapting = len(self)
        """How many of the values adapt: the first ones. What the space carries comes after."""

    def carry(self, buffers: Mapping[str, Tensor]) -> None:
        """Make buffers of the model part of the values, although no gradient moves them.

        Running statistics that a method keeps per domain belong to an expert as its parameters
        do: they are loaded, stored, cloned and ensembled with them. To be called before anything
        holds on to the values, an optimizer for example.

        Args:
            buffers: By name; each of them becomes a view of the flat buffer.
        """
        self.names += buffers
        self._parameters += buffers.values()
        self._flatten()

    @property
    def gradient(self) -> Tensor:
        """The gradient of the values, a flat vector that :meth:`zero_grad` gives them."""
        gradient = self.values.grad
        assert gradient is not None, "the gradient of a space's values is zeroed, never taken away"
        return gradient

    @property
    def carried(self) -> Tensor:
        """The values that no gradient moves, as a view."""
        return self.values.detach()[self.adapting :]

    def adapted(self, vector: Tensor) -> Tensor:
        """The part of a flat vector that gradients move, as a view."""
        return vector[: self.adapting]

    def share(self, vector: Tensor, before: Tensor, after: Tensor, share: float) -> None:
        """Move the values of an expert by a share of another's update; what is carried stays.

        Spaces whose parameters do not act linearly offer other ways.
        """
        update = self.adapted(after) - self.adapted(before)
        self.adapted(vector).add_(update, alpha=share)

    @contextmanager
    def carried_kept(self) -> Iterator[None]:
        """Whatever happens within this context, what is carried is afterwards as it was."""
        before = self.carried.clone()
        try:
            yield
        finally:
            self.carried.copy_(before)

    def _flatten(self) -> None:
        kinds = {(p.device, p.dtype) for p in self._parameters}
        if len(kinds) != 1:
            names = ", ".join(f"{d}/{t}" for d, t in sorted(kinds, key=str)) or "none"
            raise ReservoirError(
                f"adapted parameters must share one device and dtype, found: {names}"
            )
        self.shapes = [p.shape for p in self._parameters]
        flat = [p.detach().reshape(-1) for p in self._parameters]
        self.values = torch.cat(flat).requires_grad_(True)
        self._gradient = torch.zeros_like(self.values)
        self._gradients = self.split(self._gradient)
        values = self.split(self.values.detach())
        for tensor, value in zip(self._parameters, values, strict=True):
            tensor.data = value
            if isinstance(tensor, nn.Parameter):
                tensor.requires_grad_(True)
        self.zero_grad()

    def __len__(self) -> int:
        """P, the number of values: those that adapt and those that are carried."""
        return self.values.numel()

    def split(self, vector: Tensor) -> list[Tensor]:
        """Cut a flat vector into views with the shapes of the selected parameters."""
        pieces = vector.split([shape.numel() for shape in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    @property
    def version(self) -> int:
        """A number that grows with every change of the values; the host knows it without a read."""
        return self.values._version

    def snapshot(self) -> Tensor:
        """A copy of the current values."""
        return self.values.detach().clone()

    @torch.no_grad()
    def load(self, vector: Tensor) -> None:
        """Copy a flat vector into the model."""
        self._check_views()
        self.values.copy_(vector)
        self.changed()

    def set_source(self, vector: Tensor) -> None:
        """Be told the values of the source model; for spaces that treat them in a special way."""

    @contextmanager
    def at(self, vector: Tensor) -> Iterator[None]:
        """Within this context the model has other values; afterwards those it had before."""
        before = self.snapshot()
        self.load(vector)
        try:
            yield
        finally:
            self.load(before)

    @contextmanager
    def ensembled(self, experts: Tensor, weights: Tensor) -> Iterator[None]:
        """Within this context the model is the experts' ensemble ``sum_k q_k theta_k`` (Eq. 14).

        Spaces whose parameters do not act linearly offer other averages. What the values are
        afterwards is not defined: load what comes next.

        Args:
            experts: One row of values per expert, ``(K, P)``.
            weights: The share of each, ``(K,)``.
        """
        self.load(weights.to(experts) @ experts)
        yield

    def zero_grad(self) -> Tensor:
        """Zero the flat gradient in place (the parameters' gradients are views of it)."""
        self._check_views()
        self.values.grad = self._gradient
        for tensor, gradient in zip(self._parameters, self._gradients, strict=True):
            # Autograd accumulates in place, so into the flat buffer, unless a caller's
            # model.zero_grad() has taken the view away.
            if isinstance(tensor, nn.Parameter) and tensor.grad is not gradient:
                tensor.grad = gradient
        return self._gradient.zero_()

    def _check_views(self) -> None:
        if self._parameters[0].data_ptr() != self.values.data_ptr():
            raise ReservoirError(
                "the model was moved, cast, copied or given to another adaptation after this one "
                "was made, which can no longer change its parameters: do that before, and give "
                "each its own copy of the model"
            )

    @staticmethod
    def changed() -> None:
        """Tell autocast that weights changed: it would otherwise serve casts of the old ones."""
        torch.clear_autocast_cache()


def _check_weights(model: nn.Module) -> None:
    """Refuse a model that is broken before anything adapts: all experts would be."""
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            continue
        # A buffer may be a mask, which holds minus infinity where nothing shall be seen.
        weight = isinstance(tensor, nn.Parameter)
        if not (torch.isfinite(tensor) if weight else ~torch.isnan(tensor)).all():
            raise ReservoirError(
                f"the model's weights hold NaN or infinite values, first in {name!r}: get the "
                "checkpoint again, or train the model anew"
            )


def modules_below(model: nn.Module, under: str = "") -> dict[str, nn.Module]:
    """The modules of a model by name: those below ``under`` and that one itself."""
    return {
        name: module
        for name, module in model.named_modules()
        if not under or f"{name}.".startswith(f"{under}.")
    }


def nothing_to_adapt(model: nn.Module, what: str, under: str) -> NoReturn:
    """Say what a selection of parameters did not find."""
    children = ", ".join(name for name, _ in model.named_children()) or "no child modules"
    raise ReservoirError(
        f"no {what} below {under or 'the model'!r}: nothing could adapt. {type(model).__name__} "
        f'has {children}; choose another prefix (params.under), or params=dict(type="all")'
    )
