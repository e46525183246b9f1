"""LoRA through peft: low-rank factors beside frozen weights, as a parameter space."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from ..errors import ReservoirError
from ..options import register
from .base import modules_below
from .low_rank import LowRankSpace

SEGFORMER_TARGETS = ("attn.attn", "ffn.layers.0", "ffn.layers.4")
"""mmseg's MiT: the attention (packed q, k, v and its output) and the 1x1 convs of MixFFN."""


@register("params", "lora")
def lora_space(
    model: nn.Module,
    under: str = "",
    targets: Sequence[str] = SEGFORMER_TARGETS,
    rank: int = 4,
    alpha: float = 8.0,
    average: str = "factors",
    seed: int = 0,
) -> LowRankSpace:
    """Put LoRA factors into a model; only these adapt.

    B is 0 at the start, so the model does what it did.

    Args:
        model: The model, with its weights loaded and on its device.
        under: Only modules below this name.
        targets: Endings of the names of the modules that get factors: ``nn.Linear``,
            ``nn.Conv2d`` (not depthwise) and ``nn.MultiheadAttention`` as a whole.
        rank: Rank of the product.
        alpha: The product is scaled by ``alpha / rank``.
        average: How experts are ensembled, see :class:`LowRankSpace`.
        seed: Of the random A's.
    """
    # Here, not above: peft takes seconds to import, and most runs do without it.
    from peft import LoraConfig, inject_adapter_in_model

    from .lora_attention import LoraAttention

    if any("lora_A" in name for name, _ in model.named_parameters()):
        raise ReservoirError("the model has LoRA factors already: begin with a newly built one")
    modules = modules_below(model, under)
    names = [n for n in modules if any(f".{n}".endswith(f".{target}") for target in targets)]
    for target in targets:
        if not any(f".{name}".endswith(f".{target}") for name in names):
            raise ReservoirError(
                f"params.targets: no module below {under or 'the model'!r} has a name that ends in "
                f"{target!r}; {type(model).__name__} has e.g. {', '.join(_leaves(modules)[:8])}"
            )
    for name in names:
        module = modules[name]
        if isinstance(module, nn.Conv2d) and module.groups > 1:
            raise ReservoirError(f"params.targets: {name} is a grouped convolution; leave it out")
    device = next(model.parameters()).device
    config = LoraConfig(
        r=rank,
        lora_alpha=alpha,  # type: ignore[arg-type] # "int" in peft, which only divides it by r
        target_modules=names,
        lora_dropout=0.0,
        bias="none",
    )
    config._register_custom_module({nn.MultiheadAttention: LoraAttention})
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, model)
    model.eval()  # peft's layers begin in training mode
    selected = {n: p for n, p in model.named_parameters() if "lora_A." in n or "lora_B." in n}
    return LowRankSpace(model, selected, average)


def _leaves(modules: dict[str, nn.Module]) -> list[str]:
    return [n for n, m in modules.items() if isinstance(m, (nn.Linear, nn.MultiheadAttention))]
