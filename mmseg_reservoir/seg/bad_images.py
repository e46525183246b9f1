"""Unusable images of a stream: find the cause, and stop or skip them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from mmengine.dataset import pseudo_collate
from torch import Tensor
from torch.utils.data import Dataset

from ..datasets.check.file_facts import examine
from ..errors import ReservoirError

_SMALLEST = 8
"""Smallest usable height and width of an image, in pixels."""
_PNG = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class BadImage:
    """The replacement of an unusable image in a stream."""

    image: str
    cause: str


class CheckedDataset(Dataset):
    """A segmentation dataset that checks every sample and reports unusable ones.

    Otherwise it behaves as the dataset. A usable sample is checked only once, because a stream
    visits the same files many times.

    Args:
        dataset: A dataset with samples of mmseg's ``PackSegInputs``; other samples are not checked.
        skip: Whether to return a `BadImage` for an unusable sample instead of raising an error.
            Defaults to False.
    """

    def __init__(self, dataset: Any, skip: bool = False) -> None:
        self.dataset = dataset
        self.skip = skip
        # Shared memory, because every visit starts new worker processes.
        self._good = torch.zeros(len(dataset), dtype=torch.bool).share_memory_()

    def __getattr__(self, name: str) -> Any:
        if name == "dataset":  # not set yet while a worker unpickles this object
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        try:
            sample = self.dataset[index]
            cause = None if self._good[index] else _fault_of_sample(sample)
        except ReservoirError as error:
            cause = str(error)
        except Exception as error:
            cause = explain(self.dataset.get_data_info(index), error)
        if cause is None:
            self._good[index] = True
            return sample
        if not self.skip:
            raise ReservoirError(cause)
        return BadImage(str(self.dataset.get_data_info(index)["img_path"]), cause)


def collate_good(samples: list[Any]) -> tuple[Any, list[BadImage]]:
    """Return a batch of the usable samples, None without any, and a list of the others."""
    bad = [sample for sample in samples if isinstance(sample, BadImage)]
    good = [sample for sample in samples if not isinstance(sample, BadImage)]
    return pseudo_collate(good) if good else None, bad


def check_sizes(inputs: Sequence[Tensor]) -> None:
    """Raise an error if the images of a batch differ in size and cannot be stacked."""
    sizes = sorted({tuple(image.shape[-2:]) for image in inputs})
    if len(sizes) > 1:
        raise ReservoirError(
            f"a batch holds images of different sizes ({', '.join(f'{h}x{w}' for h, w in sizes)}): "
            "set test_dataloader.batch_size=1, or resize all images to one size in the pipeline "
            "(Resize with keep_ratio=False)"
        )


def explain(info: Mapping[str, Any], error: Exception) -> str:
    """Return which file of a sample could not be read, and why, from the error of its pipeline."""
    files = {key: str(info[key]) for key in ("img_path", "seg_map_path") if info.get(key)}
    label = files.get("seg_map_path")
    if label and not Path(label).exists() and label not in str(error):
        del files["seg_map_path"]  # labels are optional: the pipeline did not read it
    facts = {key: examine(Path(file), key == "seg_map_path") for key, file in files.items()}
    for key, file in files.items():
        if fault := "is empty (0 bytes)" if facts[key].size == 0 else facts[key].fault:
            return f"cannot read {file}, which {fault}: {_REMEDY}"
    shapes: list[Any] = [fact.shape for fact in facts.values()]
    if len(shapes) == 2 and None not in shapes and shapes[0] != shapes[1]:
        return _different_sizes(files["seg_map_path"], shapes[1], files["img_path"], shapes[0])
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return f"cannot read {' or '.join(files.values())} ({reason}): {_REMEDY}"


_REMEDY = "the file is missing or damaged; restore or remove it"


def _fault_of_sample(sample: Any) -> str | None:
    """Return why a sample is unusable although it was read; None if it is usable."""
    annotation = sample.get("data_samples") if isinstance(sample, Mapping) else None
    if annotation is None:
        return None
    image, size = str(annotation.get("img_path")), tuple(annotation.get("ori_shape", ()))[:2]
    if len(size) == 2 and min(size) < _SMALLEST:
        return f"the image {image} is only {size[0]}x{size[1]} pixels: {_REMEDY}"
    if _bits(image) == 16:
        return (
            f"the image {image} has 16 bits per channel, of which a model sees the upper 8, and a "
            "12-bit one as black: convert it to 8 bits"
        )
    if "gt_sem_seg" not in annotation:
        return None
    label, shape = str(annotation.get("seg_map_path")), tuple(annotation.gt_sem_seg.data.shape)
    if len(shape) != 3 or shape[0] != 1:
        return (
            f"the label {label} is in color ({'x'.join(map(str, shape))}): give one with a single "
            "channel, the train id of every pixel"
        )
    if _bits(label) == 16:
        return f"the label {label} has 16 bits per pixel: save its train ids with 8 bits"
    if len(size) == 2 and shape[1:] != size:
        return _different_sizes(label, shape[1:], image, size)
    return None


def _different_sizes(label: str, its: tuple, image: str, others: tuple) -> str:
    return (
        f"the label {label} is {its[0]}x{its[1]}, its image {image} is {others[0]}x{others[1]}: "
        "they must have the same size"
    )


def _bits(path: str) -> int | None:
    """Return the bits per channel of a PNG, which 8-bit decoders hide; None for other files."""
    try:
        with open(path, "rb") as file:
            start = file.read(25)
    except OSError:  # not on this disk: mmengine read it from another storage
        return None
    return start[24] if start.startswith(_PNG) and len(start) == 25 else None
