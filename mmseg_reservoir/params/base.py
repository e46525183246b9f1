"""The adapted parameters of a model, stored as one flat vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

import torch
from torch import Tensor, nn

from ..errors import ReservoirError


class ParamSpace:
    """The adapted parameters of a model, as views of one flat vector.

    After construction only these parameters require gradients. The flat vector, ``values``, is a
    leaf tensor for an elementwise optimizer (SGD, Adam, AdamW). So a step on 322 small tensors
    takes one kernel, and loading an expert takes one copy.

    Args:
        model: The model, on its device, since moving it later would detach the views.
        selected: Parameters by name, for example from :func:`norm_affine`.
    """

    scaling: float | None = None
    """Factor of the products of low-rank factors; None if the values have no factors."""

    def __init__(self, model: nn.Module, selected: Mapping[str, nn.Parameter]) -> None:
        _check_weights(model)
        model.requires_grad_(False)
        self.model = model
        self.names = list(selected)
        self._parameters: list[Tensor] = list(selected.values())
        self._flatten()
        self.adapting = len(self)
        """Number of values that adapt. They precede the buffers."""

    def carry(self, buffers: Mapping[str, Tensor]) -> None:
        """Append buffers of the model to the values, such as running statistics per domain.

        They are loaded, stored, cloned and ensembled with the parameters, but have no gradients.
        Call this before creating an optimizer of the values.
        """
        self.names += buffers
        self._parameters += buffers.values()
        self._flatten()

    @property
    def gradient(self) -> Tensor:
        """Return the flat gradient of the values."""
        gradient = self.values.grad
        assert gradient is not None, "zero_grad() zeroes the gradient and never removes it"
        return gradient

    @property
    def buffers(self) -> Tensor:
        """Return a view of the values without gradients (see :meth:`carry`)."""
        return self.values.detach()[self.adapting :]

    def adapted(self, vector: Tensor) -> Tensor:
        """Return a view of the adapting part of a flat vector, without buffers."""
        return vector[: self.adapting]

    def share(self, vector: Tensor, before: Tensor, after: Tensor, share: float) -> None:
        """Add ``share`` of another expert's update, ``after - before``, to ``vector``, in place.

        Buffers do not change. Subclasses with nonlinear parameters override this.
        """
        update = self.adapted(after) - self.adapted(before)
        self.adapted(vector).add_(update, alpha=share)

    @contextmanager
    def preserve_buffers(self) -> Iterator[None]:
        """Restore the buffers at the end of this context."""
        before = self.buffers.clone()
        try:
            yield
        finally:
            self.buffers.copy_(before)

    def _flatten(self) -> None:
        kinds = {(p.device, p.dtype) for p in self._parameters}
        if len(kinds) != 1:
            names = ", ".join(f"{d}/{t}" for d, t in sorted(kinds, key=str)) or "none"
            raise ReservoirError(
                f"adapted parameters must share one device and dtype, got: {names}"
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
        """Return P, the number of values, buffers included."""
        return self.values.numel()

    def split(self, vector: Tensor) -> list[Tensor]:
        """Split a flat vector into views with the shapes of the selected parameters."""
        pieces = vector.split([shape.numel() for shape in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    @property
    def version(self) -> int:
        """Return a count that grows with every change of the values, without a device read."""
        return self.values._version

    def snapshot(self) -> Tensor:
        """Return a copy of the current values."""
        return self.values.detach().clone()

    @torch.no_grad()
    def load(self, vector: Tensor) -> None:
        """Copy a flat vector into the model."""
        self._check_views()
        self.values.copy_(vector)
        self.changed()

    def set_source(self, vector: Tensor) -> None:
        """Set the source values, which some subclasses need. The base class ignores them."""

    @contextmanager
    def at(self, vector: Tensor) -> Iterator[None]:
        """Load other values within this context, and restore the current ones at its end."""
        before = self.snapshot()
        self.load(vector)
        try:
            yield
        finally:
            self.load(before)

    @contextmanager
    def ensembled(self, experts: Tensor, weights: Tensor) -> Iterator[None]:
        """Load the experts' ensemble ``sum_k q_k theta_k`` within this context (Eq. 14).

        Experts are ``(K, P)``, weights ``(K,)``. The values are undefined afterwards. Subclasses
        with nonlinear parameters may use another average.
        """
        self.load(weights.to(experts) @ experts)
        yield

    def zero_grad(self) -> Tensor:
        """Zero the flat gradient, with views as the parameters' gradients; return it."""
        self._check_views()
        self.values.grad = self._gradient
        for tensor, gradient in zip(self._parameters, self._gradients, strict=True):
            # Autograd accumulates in place, into the flat vector, unless a caller's
            # model.zero_grad() has removed the view.
            if isinstance(tensor, nn.Parameter) and tensor.grad is not gradient:
                tensor.grad = gradient
        return self._gradient.zero_()

    def _check_views(self) -> None:
        if self._parameters[0].data_ptr() != self.values.data_ptr():
            raise ReservoirError(
                "the model was moved, cast, copied or given to another adaptation after this one "
                "was made, which can no longer change its parameters: do that before, and give "
                "each adaptation a separate copy of the model"
            )

    @staticmethod
    def changed() -> None:
        """Clear autocast's cache, which would otherwise return casts of the old weights."""
        torch.clear_autocast_cache()


def _check_weights(model: nn.Module) -> None:
    """Raise an error for a model with NaN or infinite weights, which would break every expert."""
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            continue
        # A buffer may be a mask with entries of minus infinity.
        weight = isinstance(tensor, nn.Parameter)
        if not (torch.isfinite(tensor) if weight else ~torch.isnan(tensor)).all():
            raise ReservoirError(
                f"the model's weights hold NaN or infinite values, first in {name!r}: get the "
                "checkpoint again, or train the model again"
            )


def modules_below(model: nn.Module, under: str = "") -> dict[str, nn.Module]:
    """Return the modules of a model by name: ``under`` and all modules below it."""
    return {
        name: module
        for name, module in model.named_modules()
        if not under or f"{name}.".startswith(f"{under}.")
    }


def nothing_to_adapt(model: nn.Module, what: str, under: str) -> NoReturn:
    """Raise the error of a selection that matches no parameter."""
    children = ", ".join(name for name, _ in model.named_children()) or "no child modules"
    raise ReservoirError(
        f"no {what} below {under or 'the model'!r}: nothing could adapt. {type(model).__name__} "
        f'has {children}; choose another prefix (params.under), or params=dict(type="all")'
    )
