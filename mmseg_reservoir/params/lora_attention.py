"""peft's LoRA layer for ``nn.MultiheadAttention``, with weights that are never written to."""

from __future__ import annotations

from typing import Any

from peft.tuners.lora.layer import Linear, MultiheadAttention
from torch import Tensor, nn
from torch.func import functional_call


class LoraAttention(MultiheadAttention):
    """Runs the frozen attention with ``W + s B A`` in the place of its two weights.

    peft (0.21) merges the products into the weights before every call and subtracts them after
    it. That adds the product of the output projection twice, the second time without a gradient,
    and leaves a rounding error in the frozen weights each time, which sums up over a long stream.
    """

    def forward(self, query: Tensor, *args: Any, **kwargs: Any) -> Any:
        base = self.get_base_layer()
        assert isinstance(base, nn.MultiheadAttention), "what peft was told to use this layer for"
        output = base.get_submodule("out_proj")  # a Linear of peft's, in the place of torch's
        assert isinstance(output, Linear), "peft adapts the output projection, too"
        frozen = output.get_base_layer()
        assert isinstance(frozen, nn.Linear), "the output projection is linear"
        (adapter,) = self.active_adapters
        weights = {
            "in_proj_weight": base.in_proj_weight + self.get_delta_weight(adapter),
            "out_proj.base_layer.weight": frozen.weight + output.get_delta_weight(adapter),
        }
        return functional_call(base, weights, (query, *args), kwargs)
