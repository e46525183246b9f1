"""Visual prompt tuning: learnable tokens beside those of the image, as a parameter space."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..errors import ReservoirError
from ..options import choose, register
from .base import modules_below
from .prompt_space import PromptSpace, PromptTokens


@register("params", "prompt")
def prompt_space(
    model: nn.Module, under: str = "", count: int = 8, init: str = "uniform", seed: int = 0
) -> PromptSpace:
    """Give a vision transformer prompts; only these adapt.

    This is VPT-shallow (Jia et al., "Visual Prompt Tuning", ECCV 2022, Eq. 4 and 5): ``count``
    tokens stand behind the class token at the input of the first block, and no one looks at them
    after the last. They get no positional embedding.

    A vision transformer is here any module that has ``blocks`` (called one after the other with
    tokens ``(N, L, D)``), ``head`` (the classifier), and ``cls_token`` or ``pos_embed``, whose last
    size is D. Those of timm have; where there are register tokens, ``num_prefix_tokens`` says so.

    Args:
        model: The model, with its weights loaded and on its device.
        under: Only look below this name.
        count: The number of prompts; 8 as in DPCore.
        init: What they begin as: ``"uniform"`` (VPT: Xavier's, by the size of a patch and D),
            ``"normal"`` (deviation 0.02) or ``"zero"``. None leaves the model as it was: a token
            of zeros still takes part in the attention.
        seed: Of the random ones.
    """
    name, vit, blocks, head, like = _find_transformer(model, under)
    if count < 1:
        raise ReservoirError(f"params.count must be at least 1 prompt, got {count}")
    if hasattr(vit, "prompts"):
        raise ReservoirError(f"{name or type(vit).__name__} has prompts already: give it once")
    values = torch.empty(count, like.shape[-1], dtype=like.dtype)
    choose(init, INITS, "params.init")(values, vit, torch.Generator().manual_seed(seed))
    vit.prompts = prompts = PromptTokens(values.to(like.device), _prefix(vit))
    prompts.attach(blocks[0], blocks[-1])
    return PromptSpace(model, f"{name}.prompts.tokens".lstrip("."), prompts, head)


class _Transformer(NamedTuple):
    """What prompts need to know of a vision transformer."""

    name: str
    module: nn.Module
    blocks: nn.Sequential | nn.ModuleList
    head: nn.Module
    token: Tensor


def _find_transformer(model: nn.Module, under: str) -> _Transformer:
    for name, module in modules_below(model, under).items():
        blocks, head = (getattr(module, part, None) for part in ("blocks", "head"))
        if not isinstance(blocks, (nn.Sequential, nn.ModuleList)) or len(blocks) == 0:
            continue
        token = _token(module)
        if isinstance(head, nn.Module) and token is not None:
            return _Transformer(name, module, blocks, head, token)
    raise ReservoirError(
        f"no vision transformer below {under or 'the model'!r}: prompts need a module with "
        "'blocks', 'head' and 'cls_token' or 'pos_embed', as those of timm; "
        f"{type(model).__name__} has {', '.join(n for n, _ in model.named_children()) or 'nothing'}"
    )


def _token(vit: nn.Module) -> Tensor | None:
    """Something whose last size is that of a token."""
    found = (getattr(vit, name, None) for name in ("cls_token", "pos_embed"))
    return next((value.detach() for value in found if isinstance(value, Tensor)), None)


def _prefix(vit: nn.Module) -> int:
    """How many tokens stand before those of the image."""
    has_class = isinstance(getattr(vit, "cls_token", None), Tensor)
    return int(getattr(vit, "num_prefix_tokens", has_class))


def _uniform(values: Tensor, vit: nn.Module, generator: torch.Generator) -> None:
    patches = next(m for m in vit.modules() if isinstance(m, (nn.Conv2d, nn.Linear)))
    limit = math.sqrt(6 / (patches.weight[0].numel() + values.shape[1]))
    values.uniform_(-limit, limit, generator=generator)


def _normal(values: Tensor, vit: nn.Module, generator: torch.Generator) -> None:
    values.normal_(std=0.02, generator=generator)


def _zero(values: Tensor, vit: nn.Module, generator: torch.Generator) -> None:
    values.zero_()


INITS: dict[str, Callable[[Tensor, nn.Module, torch.Generator], None]] = {
    "uniform": _uniform,
    "normal": _normal,
    "zero": _zero,
}
