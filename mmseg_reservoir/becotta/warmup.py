"""The warm-up on labeled source images in synthetic styles, and its validation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from mmengine.model import BaseModel
from torch import Tensor
from torch.nn.functional import cross_entropy, interpolate

from ..core.image_range import ImageRange
from .inject import BecottaParts
from .mixture import domain_expert_information
from .styles import Style, apply_styles, find_styles


class BecottaWarmup(BaseModel):
    """A segmentor with BECoTTA injected, as a model for MMEngine's Runner.

    Every image gets the style of a domain, and uses the gate of that domain. The loss is
    ``L_seg + w_d L_disc - w_i I``. ``L_seg`` is the segmentor's loss with the source labels,
    ``L_disc`` the discriminator's cross-entropy, and ``I`` the mutual information of domains and
    experts, averaged over the mixtures. The weights and statistics of the segmentor are frozen.

    Args:
        segmentor: An ``EncoderDecoder`` with loaded weights and BECoTTA injected.
        discriminator_weight: Weight ``w_d`` of the discriminator's loss. Defaults to 1.
        information_weight: Weight ``w_i`` of the mutual information. Defaults to 0.05.
        seed: Seed of the styles. Defaults to 0.
    """

    steps: Tensor
    segmentor: Any

    def __init__(
        self,
        segmentor: Any,
        discriminator_weight: float = 1.0,
        information_weight: float = 0.05,
        seed: int = 0,
    ) -> None:
        super().__init__(data_preprocessor=segmentor.data_preprocessor)
        self.segmentor = segmentor
        segmentor.requires_grad_(False)
        self.becotta.requires_grad_(True)
        self.styles: list[Style] = find_styles(self.becotta.domains)
        self.discriminator_weight = discriminator_weight
        self.information_weight = information_weight
        self.seed = seed
        # The styles depend on the seed and this count, which is saved.
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    @property
    def becotta(self) -> BecottaParts:
        """Return the trained parts of the segmentor."""
        return self.segmentor.becotta

    def init_weights(self) -> None:
        """Do nothing, since a Runner would otherwise initialize the weights again."""

    def train(self, mode: bool = True) -> BecottaWarmup:
        """Set the mode of BECoTTA; the segmentor stays in evaluation mode."""
        super().train(mode)
        self.segmentor.eval()
        self.becotta.train(mode)
        return self

    def forward(self, inputs: Tensor, data_samples: Any = None, mode: str = "tensor") -> Any:
        """Return the losses of a styled batch; in other modes call the segmentor."""
        if mode == "loss":
            return self.loss(inputs, data_samples)
        return self.segmentor(inputs, data_samples, mode=mode)

    def loss(self, inputs: Tensor, data_samples: list) -> dict[str, Tensor]:
        """Return the three losses of a batch of clear images."""
        generator = torch.Generator().manual_seed(self.seed * 2**32 + int(self.steps))
        self.steps += 1
        labels = self._labels(len(inputs), generator).to(inputs.device)
        inputs = self.restyle(inputs, labels, generator)
        with self.becotta.assigned(labels):
            features = self.segmentor.extract_feat(inputs)
        head = self.segmentor.decode_head
        losses = head.loss(features, data_samples, self.segmentor.train_cfg)
        guess = self.becotta.discriminator(inputs)
        losses["loss_domain"] = self.discriminator_weight * cross_entropy(guess, labels)
        losses["domain_accuracy"] = 100 * (guess.argmax(dim=1) == labels).float().mean()
        information = [
            domain_expert_information(mixture.routing, labels, len(self.styles))
            for mixture in cast(Any, self.becotta.mixtures)
        ]
        losses["loss_information"] = -self.information_weight * torch.stack(information).mean()
        return losses

    def restyle(self, inputs: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
        """Apply the styles of domains to preprocessed images."""
        mean, std = (getattr(self.data_preprocessor, name, None) for name in ("mean", "std"))
        bgr = not getattr(self.data_preprocessor, "channel_conversion", False)
        values = ImageRange.of_pixels(mean, std, bgr)
        images = values.to_unit(inputs).clamp(0, 1)
        return values.from_unit(apply_styles(images, labels, self.styles, generator))

    def _labels(self, count: int, generator: torch.Generator) -> Tensor:
        """Return the domains for a batch, in cyclic order from a random one."""
        start = int(torch.randint(len(self.styles), (), generator=generator))
        return (torch.arange(count) + start) % len(self.styles)


@torch.no_grad()
def evaluate(model: BecottaWarmup, loader: Iterable[dict]) -> dict[str, dict[str, float]]:
    """Return mIoU and discriminator accuracy in percent, for every domain.

    An image gets the same weather in every call. The discriminator chooses the gates, as at test
    time.
    """
    training, domains = model.training, model.becotta.domains
    model.eval()
    classes = model.segmentor.decode_head.num_classes
    confusion = torch.zeros(len(domains), classes, classes, dtype=torch.long)
    right, images = torch.zeros(len(domains)), 0
    for data in loader:
        data = model.data_preprocessor(data, False)
        inputs, samples = data["inputs"], data["data_samples"]
        truth = torch.stack([sample.gt_sem_seg.data[0] for sample in samples])
        for index in range(len(domains)):
            labels = torch.full((len(inputs),), index, device=inputs.device)
            generator = torch.Generator().manual_seed(images)
            styled = model.restyle(inputs, labels, generator)
            logits = interpolate(model(styled), truth.shape[-2:], mode="bilinear")
            confusion[index] += count_pixels(logits.argmax(dim=1), truth, classes)
            guess = model.becotta.discriminator(styled).argmax(dim=1)
            right[index] += (guess == labels).sum().cpu()
        images += len(inputs)
    model.train(training)
    return {
        name: {
            "mIoU": 100 * mean_iou(confusion[index]),
            "domain_accuracy": float(100 * right[index] / max(images, 1)),
        }
        for index, name in enumerate(domains)
    }


def count_pixels(predicted: Tensor, truth: Tensor, classes: int) -> Tensor:
    """Return the number of pixels by true (rows) and predicted class, without other labels."""
    labeled = truth < classes
    pairs = classes * truth[labeled].long() + predicted[labeled]
    return torch.bincount(pairs.cpu(), minlength=classes**2).view(classes, classes)


def mean_iou(confusion: Tensor) -> float:
    """Return the mean IoU over the classes that occur or are predicted."""
    both = confusion.diag().double()
    either = confusion.sum(dim=0) + confusion.sum(dim=1) - both
    return float((both / either)[either > 0].mean())
