"""Options whose published values depend on the number of classes of a data set."""

from __future__ import annotations

import math

PUBLISHED: dict[str, dict[int, float]] = {
    "d_margin": {10: 0.4, 100: 0.4, 1000: 0.05},
    "fisher_alpha": {10: 1.0, 100: 1.0, 1000: 2000.0},
    "confidence": {10: 0.92, 100: 0.72, 1000: 0.1},
}
"""Values by the number of classes, for CIFAR-10-C, CIFAR-100-C and ImageNet-C: the first two are
EATA's, the last is CoTTA's. EATA's for 100 classes are this project's choice, those for 10: no
published source of them was checked, and the paper's row for CIFAR-100-C has others."""


def by_classes(option: str, classes: int) -> float:
    """The value of an option where a user gives none.

    Of the published values the one whose number of classes is nearest by ratio: 10's up to 31
    classes, 100's up to 316, 1000's above. What lies between the published points is this project's
    choice and not tuned.

    Example:
        >>> by_classes("d_margin", 19)  # Cityscapes
        0.4
    """
    values = PUBLISHED[option]
    return values[min(values, key=lambda published: abs(math.log(published / classes)))]
