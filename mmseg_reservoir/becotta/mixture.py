"""MoDE: mixtures of low-rank experts with gates by domain (BECoTTA, ICML 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, one_hot, softplus


class LowRankExperts(nn.Module):
    """Experts ``A_i(x) = W_up,i GELU(W_down,i x + b_down,i) + b_up,i``, and their weighted sum.

    The up-projections start at zero, so new experts return 0. Tokens have ``dim`` channels.
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
        """Return ``sum_i weights_i A_i(x)`` of tokens ``(N, L, C)`` and weights ``(N, E)``.

        The used experts form one network of rank ``E r`` with scaled inner units. So any number of
        experts takes two matrix products.
        """
        used = (weights.detach() != 0).any(dim=0).nonzero().flatten()
        weights = weights[:, used]
        down, up = self.down_weight[used].flatten(0, 1), self.up_weight[used].flatten(0, 1)
        inner = gelu(tokens @ down.T + self.down_bias[used].flatten())
        scale = weights.repeat_interleave(self.down_bias.shape[1], dim=1)
        return (inner * scale[:, None]) @ up + (weights @ self.up_bias[used])[:, None]


class DomainGates(nn.Module):
    """One gate per domain, which maps the pooled tokens of an image to weights of the experts.

    A gate's logits are ``h_d(x) = x W_d + eps softplus(x W_noise,d)``, with standard normal ``eps``
    in training only (noisy top-k gating: Shazeer et al., ICLR 2017). The weights are the softmax
    over the ``top_k`` largest logits and 0 elsewhere.

    This project chose two details. ``x`` is the mean over the tokens, since a domain is a property
    of the image. ``x`` is normalized, without parameters, since activations grow with depth and
    would saturate the softmax.
    """

    draws: Tensor

    def __init__(self, dim: int, experts: int, top_k: int, domains: int, seed: int = 0) -> None:
        super().__init__()
        self.top_k, self.seed = top_k, seed
        generator = torch.Generator().manual_seed(seed)
        weight = 0.1 * torch.randn(domains, experts, dim, generator=generator) / dim**0.5
        self.weight = nn.Parameter(weight)
        self.noise_weight = nn.Parameter(torch.zeros(domains, experts, dim))
        # The noise only depends on the seed and this count, so a resumed training draws the same
        # numbers as an uninterrupted one.
        self.register_buffer("draws", torch.zeros((), dtype=torch.long))

    def forward(self, tokens: Tensor, domains: Tensor) -> Tensor:
        """Return weights ``(N, E)`` for tokens ``(N, L, C)`` and domain shares ``(N, D)``.

        The shares blend the weights of the gates; one-hot shares choose a gate.
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
    """The domain shares ``(N, D)`` of the batch, for all mixtures of a model."""

    value: Tensor | None = None


class MixtureOfDomainExperts(nn.Module):
    """The map ``x + sum_i G_d(x)_i A_i(x)`` of the output of a transformer block.

    See :class:`LowRankExperts` and :class:`DomainGates`.
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
        """Weights ``(N, E)`` of the last batch, with their graph; None outside of training."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Add the experts' output to tokens ``(N, L, C)``."""
        assert self.shares.value is not None  # set before the backbone
        weights = self.gates(tokens, self.shares.value.to(tokens))
        self.routing = weights if self.training else None
        return tokens + self.experts(tokens, weights)

    def after_block(self, block: nn.Module, args: tuple, output: Tensor) -> Tensor:
        """Apply the mixture; a forward hook of a transformer block."""
        return self(output)


def domain_expert_information(routing: Tensor, labels: Tensor, domains: int) -> Tensor:
    """Return the mutual information of domains and experts in a batch, in nats.

    ``I = sum p(A_i, d) log[p(A_i, d) / (p(A_i) p(d))]``, where ``p(A_i | d)`` is the mean weight of
    expert ``i`` in images of domain ``d``, and ``p(d)`` the fraction of the domain in the batch.
    The warm-up maximizes it, so that domains use different experts and all experts are used. A
    batch of one domain has I = 0. Rows of the expert weights ``routing``, ``(N, E)``, have sum 1.
    """
    joint = one_hot(labels, domains).to(routing).T @ routing / len(routing)  # (D, E)
    independent = joint.sum(dim=1, keepdim=True) * joint.sum(dim=0, keepdim=True)
    positive = joint > 0  # 0 log 0 = 0, without a gradient of NaN
    return (joint[positive] * torch.log(joint[positive] / independent[positive])).sum()


class DomainDiscriminator(nn.Module):
    """A small convolutional network from inputs ``(N, 3, H, W)`` of any size to domain logits.

    It uses the mean and log-variance of a few convolutions over the image, since weather changes
    local texture and contrast.
    """

    def __init__(self, domains: int, width: int = 16, seed: int = 0) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.classify = nn.Linear(4 * width, domains)
        generator = torch.Generator().manual_seed(seed)
        for parameter in self.parameters():
            if parameter.ndim == 1:
                nn.init.zeros_(parameter)
            else:
                nn.init.kaiming_normal_(parameter, nonlinearity="relu", generator=generator)

    def forward(self, images: Tensor) -> Tensor:
        """Return the domain logits ``(N, D)``."""
        features = self.features(images).flatten(2)
        variance = features.var(dim=2, correction=0)
        # A constant image has variance 0; the constant keeps its logarithm finite.
        pooled = torch.cat([features.mean(dim=2), torch.log(variance + 1e-3)], dim=1)
        return self.classify(pooled)
