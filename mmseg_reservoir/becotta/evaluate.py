"""How a model with BECoTTA does on validation images, as they are and in every style."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from .warmup import BecottaWarmup


@torch.no_grad()
def evaluate(model: BecottaWarmup, loader: Iterable[dict]) -> dict[str, dict[str, float]]:
    """mIoU and the accuracy of the discriminator, in percent, for every domain.

    An image gets the same weather in every call, and its domain is guessed by the discriminator,
    as at test time.
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
    """Pixels by true (rows) and predicted class; labels beyond the classes are ignored."""
    known = truth < classes
    pairs = classes * truth[known].long() + predicted[known]
    return torch.bincount(pairs.cpu(), minlength=classes**2).view(classes, classes)


def mean_iou(confusion: Tensor) -> float:
    """Mean IoU over the classes that occur or are predicted."""
    both = confusion.diag().double()
    either = confusion.sum(dim=0) + confusion.sum(dim=1) - both
    return float((both / either)[either > 0].mean())
