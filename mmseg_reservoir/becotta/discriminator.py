"""The domain discriminator: which of the warm-up's domains an image looks like."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class DomainDiscriminator(nn.Module):
    """A small convolutional network: image ``(N, 3, H, W)``, as the model gets it -> ``(N, D)``.

    Weather shows in local texture and contrast, so the mean and the log-variance over the image of
    a few convolutions are enough. Images of any size will do.

    Args:
        domains: How many domains.
        width: Channels of the first convolution.
        seed: Of the initial weights.
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
        """Logits of the domains."""
        features = self.features(images).flatten(2)
        variance = features.var(dim=2, correction=0)
        # A constant image has variance 0; the small number keeps its logarithm at hand.
        pooled = torch.cat([features.mean(dim=2), torch.log(variance + 1e-3)], dim=1)
        return self.classify(pooled)
