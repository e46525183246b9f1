"""What is said of a frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class FrameResult:
    """What the model says of a frame.

    Args:
        name: That of the frame, without a suffix.
        index: Its position in the input, from 0.
        image: The frame itself, BGR.
        labels: Class of each pixel, ``(H, W)``, uint8, at the size of the frame.
        confidence: Probability of that class, ``(H, W)``, float32.
        expert: Which one predicted, and adapted.
        k: How many experts there are.
        opened: Whether a domain was opened by this frame.
        weight: The expert's share of the prediction.
        seconds: That adaptation and prediction took.
    """

    name: str
    index: int
    image: np.ndarray
    labels: np.ndarray
    confidence: np.ndarray
    expert: int
    k: int
    opened: bool
    weight: float
    seconds: float
