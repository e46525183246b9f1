"""Parameters that come as extra tokens of a transformer: visual prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from ..errors import ReservoirError
from .base import ParamSpace


class PromptTokens(nn.Module):
    """Learnable tokens that a transformer sees from its first block to its last.

    Args:
        values: The tokens at the start, ``(count, D)``.
        position: How many of the transformer's own tokens stand before them.
    """

    def __init__(self, values: Tensor, position: int) -> None:
        super().__init__()
        self.tokens = nn.Parameter(values)
        self.position = position
        self.shown = True

    def attach(self, first: nn.Module, last: nn.Module) -> None:
        """Put the tokens in before the first block, and take them out behind the last.

        Out again, so that pooling and whatever else follows finds the tokens it knows.
        """
        first.register_forward_pre_hook(self._insert)
        last.register_forward_hook(self._drop)

    def _insert(self, block: nn.Module, inputs: tuple) -> tuple | None:
        if not self.shown:
            return None
        x, *rest = inputs
        if x.ndim != 3 or x.shape[2] != self.tokens.shape[1]:
            raise ReservoirError(
                f"prompts need blocks of tokens (N, L, {self.tokens.shape[1]}), got "
                f"{tuple(x.shape)}: this transformer cannot take them"
            )
        tokens = self.tokens.to(x.dtype).expand(len(x), -1, -1)
        own = x[:, : self.position], x[:, self.position :]
        return torch.cat([own[0], tokens, own[1]], dim=1), *rest

    def _drop(self, block: nn.Module, inputs: tuple, output: Tensor) -> Tensor | None:
        if not self.shown:
            return None
        behind = self.position + len(self.tokens)
        return torch.cat([output[:, : self.position], output[:, behind:]], dim=1)


class PromptSpace(ParamSpace):
    """Prompts as the adapted parameters, and the features that they change.

    No value of a prompt is "no prompt". So the initial values, taken as parameters to look at
    (:meth:`at`), stand for the model without prompts: that is what the source model is.

    Args:
        model: The model; already on its device.
        name: The name of the tokens in it.
        prompts: The tokens, attached.
        head: The module whose input is the feature of an image: the classifier.
    """

    def __init__(self, model: nn.Module, name: str, prompts: PromptTokens, head: nn.Module) -> None:
        super().__init__(model, {name: prompts.tokens})
        self.initial = self.snapshot()
        self._prompts = prompts
        self._head = head

    def begin_at(self, vector: Tensor) -> None:
        """Take other values for the initial ones, those of the source model."""
        self.initial.copy_(vector)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Within this context the model has no prompts."""
        before, self._prompts.shown = self._prompts.shown, False
        try:
            yield
        finally:
            self._prompts.shown = before

    @contextmanager
    def at(self, vector: Tensor) -> Iterator[None]:
        """Within this context the model has other prompts; none if they are the initial ones."""
        untouched = torch.equal(vector, self.initial)
        with super().at(vector), self.hidden() if untouched else nullcontext():
            yield

    def features(
        self, forward: Callable[[Tensor], Tensor], inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The prediction and what the classifier made it from, one row ``(D,)`` per image."""
        seen: list[Tensor] = []
        handle = self._head.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
        try:
            logits = forward(inputs)
        finally:
            handle.remove()
        if len(seen) != 1 or seen[0].ndim != 2:
            shapes = [tuple(x.shape) for x in seen]
            raise ReservoirError(
                "the classifier (the transformer's module 'head') must be called once, with one "
                f"feature per image; it was called with {shapes or 'nothing'}"
            )
        return logits, seen[0]
