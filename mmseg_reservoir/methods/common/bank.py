"""A small memory of the stream that is balanced over classes, timely and certain (RoTTA)."""

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
    """Category-balanced sampling with timeliness and uncertainty (RoTTA, Sec. 3.3, Algorithm 1).

    A class may hold ``capacity / classes`` samples. A sample of a class with room is added; if the
    bank itself is full, it competes with the samples of the largest classes. One of a class
    without room competes with its own class. To compete is to replace the one with the highest

        ``H = lambda_t / (1 + exp(-A / capacity)) + lambda_u U / ln(classes)``    (Eq. 6)

    (age A in samples, uncertainty U the entropy of the prediction), if that is higher than one's
    own; otherwise the new sample is dropped.

    The bank holds no samples itself: they are a plain list, so that a domain's state can keep them.
    """

    capacity: int = 64
    lambda_t: float = 1.0
    lambda_u: float = 1.0

    def add(
        self, items: list[Item], image: Tensor, label: int, uncertainty: float, classes: int
    ) -> None:
        """Offer a sample to the list; all that is kept in it grows older by one."""
        # A row of a batch is a view of all of it; what is kept must be a copy.
        image = image.detach().clone()
        new = {"image": image, "label": label, "uncertainty": uncertainty, "age": 0}
        rivals = self._rivals(items, label, classes)
        if rivals is None:
            items.append(new)
        else:
            worst = max(rivals, key=lambda place: self.score(items[place], classes))
            if self.score(items[worst], classes) > self.score(new, classes):
                del items[worst]
                items.append(new)
        for item in items:
            item["age"] += 1

    def score(self, item: Item, classes: int) -> float:
        """H of Eq. 6: high for what is old or uncertain."""
        timeliness = 1 / (1 + math.exp(-item["age"] / self.capacity))
        return self.lambda_t * timeliness + self.lambda_u * item["uncertainty"] / math.log(classes)

    def _rivals(self, items: list[Item], label: int, classes: int) -> list[int] | None:
        """Places of the samples that a new one competes with; None if there is room for it."""
        held = Counter(item["label"] for item in items)
        if held[label] < self.capacity / classes:
            if len(items) < self.capacity:
                return None
            most = max(held.values())
            return [i for i, item in enumerate(items) if held[item["label"]] == most]
        return [i for i, item in enumerate(items) if item["label"] == label]

    def ages(self, items: list[Item]) -> Tensor:
        """Ages as shares of the capacity."""
        return torch.tensor([item["age"] / self.capacity for item in items])
