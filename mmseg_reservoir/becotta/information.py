"""The domain-expert synergy term: how much an expert tells about the domain, and vice versa."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot


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
