"""peft's LoRA layer for ``nn.MultiheadAttention``, without writes to the frozen weights."""

from __future__ import annotations

from typing import Any

from peft.tuners.lora.layer import Linear, MultiheadAttention
from torch import Tensor, nn
from torch.func import functional_call


class LoraAttention(MultiheadAttention):
    """The frozen attention with ``W + s B A`` instead of its two weights.

    peft (0.21) merges the products into the weights before every call and subtracts them after it.
    That adds the product of the output projection twice, once without a gradient. It also leaves
    rounding errors in the frozen weights, which accumulate over a long stream.
    """

    def forward(self, query: Tensor, *args: Any, **kwargs: Any) -> Any:
        base = self.get_base_layer()
        assert isinstance(base, nn.MultiheadAttention)
        output = base.get_submodule("out_proj")
        assert isinstance(output, Linear), "peft replaces torch's Linear by its own"
        frozen = output.get_base_layer()
        assert isinstance(frozen, nn.Linear)
        (adapter,) = self.active_adapters
        weights = {
            "in_proj_weight": base.in_proj_weight + self.get_delta_weight(adapter),
            "out_proj.base_layer.weight": frozen.weight + output.get_delta_weight(adapter),
        }
        return functional_call(base, weights, (query, *args), kwargs)
