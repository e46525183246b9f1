"""Which domains a style memory holds over time, from the order of a recorded stream."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..registry import find
from ..routing.style_memory import StyleMemory
from .figure_data import Routes


class Balance(NamedTuple):
    """The share of every domain (rows) among the remembered styles, after every route."""

    domains: list[str]
    shares: list[list[float]]

    @property
    def unevenness(self) -> float:
        """How far the shares are from equal ones, mean over time: 0 if all domains are equal."""
        even = 1 / len(self.domains)
        shares = torch.tensor(self.shares)
        return float((shares - even).abs().sum(dim=0).mean()) / 2


def memory_balance(routes: Routes, kind: str, capacity: int) -> Balance:
    """Offer a memory the domain of every route in the place of its style.

    Args:
        routes: Of a run.
        kind: A memory that is registered, ``"reservoir"`` or ``"fifo"``, and asks for no
            assignments.
        capacity: M, the number of styles that it keeps.
    """
    memory: StyleMemory = find("memory", kind)(capacity=capacity)
    domains = list(dict.fromkeys(route["domain"] for route in routes))
    columns = []
    for route in routes:
        domain = torch.tensor([domains.index(route["domain"])])
        memory.add(domain, torch.ones(len(memory) + 1, 1))
        held = torch.bincount(memory.styles.flatten(), minlength=len(domains))
        columns.append((held / len(memory)).tolist())
    return Balance(domains, list(map(list, zip(*columns, strict=True))))
