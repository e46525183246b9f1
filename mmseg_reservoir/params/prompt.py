"""Visual prompt tuning: learnable tokens added to those of the image, as a parameter space."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ReservoirError
from ..option_types import Count
from ..registry import checked, choose, register
from .base import ParamSpace, modules_below


@register("params", "prompt")
@checked
def prompt_space(
    model: nn.Module, under: str = "", count: Count = 8, init: str = "uniform", seed: int = 0
) -> PromptSpace:
    """Add prompts to a vision transformer, and return their space; only the prompts adapt.

    This is VPT-shallow (Jia et al., "Visual Prompt Tuning", ECCV 2022, Eq. 4 and 5): ``count``
    tokens, without positional embedding, follow the class token at the input of the first block.
    They are removed after the last block.

    A vision transformer is any module with these attributes, as in timm: ``blocks``, called in turn
    with tokens ``(N, L, D)``; ``head``, the classifier; and ``cls_token`` or ``pos_embed`` with
    last dimension D. With register tokens it also needs ``num_prefix_tokens``.

    Args:
        model: The model, with its weights loaded and on its device.
        under: Name of the module to search. Defaults to the whole model.
        count: Number of prompts. Defaults to 8, as in DPCore.
        init: Initial values: ``"uniform"`` (VPT: Xavier's, by the size of a patch and D),
            ``"normal"`` (standard deviation 0.02) or ``"zero"``. All change the prediction, since
            the attention also reads zero tokens. Defaults to ``"uniform"``.
        seed: Seed of random initial values. Defaults to 0.
    """
    name, vit, blocks, head, like = _find_transformer(model, under)
    if hasattr(vit, "prompts"):
        raise ReservoirError(f"{name or type(vit).__name__} has prompts already: add them once")
    values = torch.empty(count, like.shape[-1], dtype=like.dtype)
    choose(init, INITS, "params.init")(values, vit, torch.Generator().manual_seed(seed))
    has_class = isinstance(getattr(vit, "cls_token", None), Tensor)
    position = int(getattr(vit, "num_prefix_tokens", has_class))
    vit.prompts = prompts = PromptTokens(values.to(like.device), position)
    prompts.attach(blocks[0], blocks[-1])
    return PromptSpace(model, f"{name}.prompts.tokens".lstrip("."), prompts, head)


def _find_transformer(
    model: nn.Module, under: str
) -> tuple[str, nn.Module, nn.Sequential | nn.ModuleList, nn.Module, Tensor]:
    """Return name, module, blocks and head of a transformer, and a tensor with last dimension D."""
    for name, module in modules_below(model, under).items():
        blocks, head = (getattr(module, part, None) for part in ("blocks", "head"))
        if not isinstance(blocks, (nn.Sequential, nn.ModuleList)) or len(blocks) == 0:
            continue
        values = (getattr(module, part, None) for part in ("cls_token", "pos_embed"))
        token = next((value.detach() for value in values if isinstance(value, Tensor)), None)
        if isinstance(head, nn.Module) and token is not None:
            return name, module, blocks, head, token
    raise ReservoirError(
        f"no vision transformer below {under or 'the model'!r}: prompts need a module with "
        "'blocks', 'head' and 'cls_token' or 'pos_embed', as those of timm; "
        f"{type(model).__name__} has {', '.join(n for n, _ in model.named_children()) or 'nothing'}"
    )


def _uniform(values: Tensor, vit: nn.Module, generator: torch.Generator) -> None:
    patches = next(m for m in vit.modules() if isinstance(m, (nn.Conv2d, nn.Linear)))
    limit = math.sqrt(6 / (patches.weight[0].numel() + values.shape[1]))
    values.uniform_(-limit, limit, generator=generator)


INITS: dict[str, Callable[[Tensor, nn.Module, torch.Generator], object]] = {
    "uniform": _uniform,
    "normal": lambda values, vit, generator: values.normal_(std=0.02, generator=generator),
    "zero": lambda values, vit, generator: values.zero_(),
}


class PromptTokens(nn.Module):
    """Learnable tokens ``(count, D)`` in all blocks of a transformer.

    ``position`` is the number of the transformer's tokens before them.
    """

    beyond_checkpoint = "prompts"
    """The parts that a plain checkpoint cannot store, for the error of an export."""

    def __init__(self, values: Tensor, position: int) -> None:
        super().__init__()
        self.tokens = nn.Parameter(values)
        self.position = position
        self.is_shown = True

    def attach(self, first: nn.Module, last: nn.Module) -> None:
        """Insert the tokens before the first block, and remove them after the last."""
        first.register_forward_pre_hook(self._insert)
        last.register_forward_hook(self._drop)

    def _insert(self, block: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if not self.is_shown:
            return None
        x, *rest = inputs
        if x.ndim != 3 or x.shape[2] != self.tokens.shape[1]:
            raise ReservoirError(
                f"prompts need blocks of tokens (N, L, {self.tokens.shape[1]}), got "
                f"{tuple(x.shape)}: this transformer cannot take them"
            )
        tokens = self.tokens.to(x.dtype).expand(len(x), -1, -1)
        before, after = x[:, : self.position], x[:, self.position :]
        return torch.cat([before, tokens, after], dim=1), *rest

    def _drop(self, block: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor | None:
        if not self.is_shown:
            return None
        end = self.position + len(self.tokens)
        return torch.cat([output[:, : self.position], output[:, end:]], dim=1)


class PromptSpace(ParamSpace):
    """Prompts as the adapted parameters, and the features that they change.

    Prompts of any value change the prediction. So the initial values represent the source model,
    and :meth:`at` runs the model without prompts for them. The feature of an image is the input of
    the module ``head``, the classifier.
    """

    def __init__(self, model: nn.Module, name: str, prompts: PromptTokens, head: nn.Module) -> None:
        super().__init__(model, {name: prompts.tokens})
        self.initial = self.snapshot()
        self._prompts = prompts
        self._head = head

    def set_source(self, vector: Tensor) -> None:
        """Set the initial values, which represent the source model."""
        self.initial.copy_(vector)

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Run the model without prompts within this context."""
        before, self._prompts.is_shown = self._prompts.is_shown, False
        try:
            yield
        finally:
            self._prompts.is_shown = before

    @contextmanager
    def at(self, vector: Tensor) -> Iterator[None]:
        """Load other prompts within this context, or hide them for the initial values."""
        is_source = torch.equal(vector, self.initial)
        with super().at(vector), self.hidden() if is_source else nullcontext():
            yield

    def features(
        self, forward: Callable[[Tensor], Tensor], inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the prediction and the classifier's input, one row ``(D,)`` per image."""
        seen: list[Tensor] = []
        with self._head.register_forward_pre_hook(lambda _, args: seen.append(args[0])):
            logits = forward(inputs)
        if len(seen) != 1 or seen[0].ndim != 2:
            shapes = [tuple(x.shape) for x in seen]
            raise ReservoirError(
                "the classifier (the transformer's module 'head') must be called once, with one "
                f"feature per image; it was called with {shapes or 'nothing'}"
            )
        return logits, seen[0]
