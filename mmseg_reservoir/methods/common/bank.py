"""RoTTA's memory of recent and certain samples, balanced over classes."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Item = dict[str, Any]


@dataclass
class BalancedBank:
    """Memory by category-balanced sampling with timeliness and uncertainty (RoTTA, Sec. 3.3).

    This is Algorithm 1. Each class has room for ``capacity / classes`` samples. A new sample of a
    full class competes with that class. If only the bank is full, it competes with the largest
    classes. Otherwise it is added. A competing sample replaces the one with the highest

        ``H = lambda_t / (1 + exp(-A / capacity)) + lambda_u U / ln(classes)``    (Eq. 6)

    if that is higher than its own ``H``, and is dropped otherwise. ``A`` is the age in samples, and
    ``U`` the entropy of the prediction. The samples are a plain list in the domain's state.

    Args:
        capacity: Number of samples. Defaults to 64.
        lambda_t: Weight of the age. Defaults to 1.
        lambda_u: Weight of the uncertainty. Defaults to 1.
    """

    capacity: int = 64
    lambda_t: float = 1.0
    lambda_u: float = 1.0

    def add(
        self, items: list[Item], image: Tensor, label: int, uncertainty: float, classes: int
    ) -> None:
        """Offer a sample to the list, and increase the age of all samples in it by one."""
        # A copy, since a view would keep the whole batch in memory.
        image = image.detach().clone()
        new = {"image": image, "label": label, "uncertainty": uncertainty, "age": 0}
        rivals = self._rivals(items, label, classes)
        if rivals is None:
            items.append(new)
        else:
            worst = max(rivals, key=lambda index: self.score(items[index], classes))
            if self.score(items[worst], classes) > self.score(new, classes):
                del items[worst]
                items.append(new)
        for item in items:
            item["age"] += 1

    def score(self, item: Item, classes: int) -> float:
        """Return H of Eq. 6, which is high for old or uncertain samples."""
        timeliness = 1 / (1 + math.exp(-item["age"] / self.capacity))
        uncertainty: float = item["uncertainty"] / math.log(classes)
        return self.lambda_t * timeliness + self.lambda_u * uncertainty

    def _rivals(self, items: list[Item], label: int, classes: int) -> list[int] | None:
        """Return the indices of samples that a new one competes with; None if there is room."""
        held = Counter(item["label"] for item in items)
        if held[label] < self.capacity / classes:
            if len(items) < self.capacity:
                return None
            most = max(held.values())
            return [i for i, item in enumerate(items) if held[item["label"]] == most]
        return [i for i, item in enumerate(items) if item["label"] == label]

    def ages(self, items: list[Item]) -> Tensor:
        """Return the ages, as fractions of the capacity."""
        return torch.tensor([item["age"] / self.capacity for item in items])
