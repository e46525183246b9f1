"""MoDE: a mixture of low-rank experts whose gates belong to domains (BECoTTA, ICML 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, one_hot, softplus


class LowRankExperts(nn.Module):
    """Experts ``A_i(x) = W_up,i GELU(W_down,i x + b_down,i) + b_up,i``, and their weighted sum.

    The up-projections start at zero, so that new experts change nothing.

    Args:
        dim: Channels of a token.
        count: How many experts.
        rank: Their inner width.
        seed: Of the down-projections.
    """

    def __init__(self, dim: int, count: int, rank: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        down = torch.randn(count, rank, dim, generator=generator) / dim**0.5
        self.down_weight = nn.Parameter(down)
        self.down_bias = nn.Parameter(torch.zeros(count, rank))
        self.up_weight = nn.Parameter(torch.zeros(count, rank, dim))
        self.up_bias = nn.Parameter(torch.zeros(count, dim))

    def forward(self, tokens: Tensor, weights: Tensor) -> Tensor:
        """``sum_i weights_i A_i(x)``: tokens ``(N, L, C)`` and weights ``(N, E)`` -> ``(N, L, C)``.

        Only the experts that an image of the batch has chosen are computed. Side by side they are
        one network of rank ``E r`` whose inner units are scaled by the weights: two matrix
        products, however many experts there are.
        """
        used = (weights.detach() != 0).any(dim=0).nonzero().flatten()
        weights = weights[:, used]
        down, up = self.down_weight[used].flatten(0, 1), self.up_weight[used].flatten(0, 1)
        inner = gelu(tokens @ down.T + self.down_bias[used].flatten())
        scale = weights.repeat_interleave(self.down_bias.shape[1], dim=1)
        return (inner * scale[:, None]) @ up + (weights @ self.up_bias[used])[:, None]


class DomainGates(nn.Module):
    """One gate per domain: pooled tokens of an image -> weights of the experts for this image.

    A gate's logits are ``h_d(x) = x W_d + eps softplus(x W_noise,d)`` with standard normal ``eps``
    in training only (noisy top-k gating: Shazeer et al., ICLR 2017). The weights are the softmax
    over the ``top_k`` largest logits and 0 elsewhere. They multiply the experts' outputs, so the
    gradient of a loss reaches the gate as well as the chosen experts.

    Two choices are this project's. ``x`` is the mean over the tokens: one choice per image, not
    per token, as a domain is a property of the image. And it is normalised, without parameters,
    because the residual stream of a transformer grows with depth and would saturate the softmax.

    Args:
        dim: Channels of a token.
        experts: How many experts to weigh.
        top_k: How many of them get a weight.
        domains: How many gates.
        seed: Of the gates and of their noise.
    """

    draws: Tensor

    def __init__(self, dim: int, experts: int, top_k: int, domains: int, seed: int = 0) -> None:
        super().__init__()
        self.top_k, self.seed = top_k, seed
        generator = torch.Generator().manual_seed(seed)
        weight = 0.1 * torch.randn(domains, experts, dim, generator=generator) / dim**0.5
        self.weight = nn.Parameter(weight)
        self.noise_weight = nn.Parameter(torch.zeros(domains, experts, dim))
        # The noise follows from the seed and this count, so a resumed training draws what an
        # unbroken one would have drawn, and nothing depends on torch's global generator.
        self.register_buffer("draws", torch.zeros((), dtype=torch.long))

    def forward(self, tokens: Tensor, domains: Tensor) -> Tensor:
        """Tokens ``(N, L, C)`` and shares of the domains ``(N, D)`` -> weights ``(N, E)``.

        The shares blend the weights that the domains' gates give; one-hot shares choose a gate.
        """
        pooled = layer_norm(tokens.mean(dim=1), tokens.shape[-1:])
        logits = torch.einsum("nc,dec->nde", pooled, self.weight)
        if self.training:
            spread = softplus(torch.einsum("nc,dec->nde", pooled, self.noise_weight))
            logits = logits + self._noise(logits) * spread
        largest, chosen = logits.topk(self.top_k, dim=-1)
        weights = torch.zeros_like(logits).scatter(-1, chosen, largest.softmax(dim=-1))
        return torch.einsum("nd,nde->ne", domains, weights)

    def _noise(self, like: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed * 2**32 + int(self.draws))
        self.draws += 1
        return torch.randn(like.shape, generator=generator).to(like)


class DomainShares:
    """Where the mixtures of a model read to which domain each image of the batch belongs."""

    value: Tensor | None = None


class MixtureOfDomainExperts(nn.Module):
    """``x + sum_i G_d(x)_i A_i(x)``: what BECoTTA adds to the output of a transformer block.

    ``shares`` tells the domains of the images; for the rest see :class:`LowRankExperts` and
    :class:`DomainGates`.
    """

    def __init__(
        self,
        dim: int,
        experts: int,
        top_k: int,
        rank: int,
        domains: int,
        shares: DomainShares,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.experts = LowRankExperts(dim, experts, rank, seed)
        self.gates = DomainGates(dim, experts, top_k, domains, seed)
        self.shares = shares
        self.routing: Tensor | None = None
        """The last weights ``(N, E)``, with their graph; kept in training only."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens ``(N, L, C)`` with the experts' part added."""
        weights = self.gates(tokens, self.shares.value.to(tokens))
        self.routing = weights if self.training else None
        return tokens + self.experts(tokens, weights)

    def after_block(self, block: nn.Module, args: tuple, output: Tensor) -> Tensor:
        """A forward hook of a transformer block."""
        return self(output)


def domain_expert_information(routing: Tensor, labels: Tensor, domains: int) -> Tensor:
    """Mutual information of domains and experts in a batch, in nats.

    ``p(A_i | d)`` is the mean weight that the images of domain ``d`` give to expert ``i``, ``p(d)``
    the domain's share of the batch, and ``I = sum p(A_i, d) log[p(A_i, d) / (p(A_i) p(d))]``. The
    warm-up maximises it: every domain then has experts of its own, yet all experts are used. A
    batch of one domain tells nothing (I = 0), which is why the term plays no part at test time,
    when images come one by one.

    Args:
        routing: Weights of the experts ``(N, E)``, each row of sum 1.
        labels: Domains of the images ``(N,)``.
        domains: How many domains there are.
    """
    joint = one_hot(labels, domains).to(routing).T @ routing / len(routing)  # (D, E)
    independent = joint.sum(dim=1, keepdim=True) * joint.sum(dim=0, keepdim=True)
    seen = joint > 0  # 0 log 0 = 0, and its gradient must not be NaN
    return (joint[seen] * torch.log(joint[seen] / independent[seen])).sum()
