"""One folder per class: clean images of the user's own, or those of ImageNet."""

from __future__ import annotations

from pathlib import Path

from .pictures import FileImages, Preprocess, list_classes, list_folders


def image_folder(
    root: str | Path,
    resize: int | tuple[int, int] | None = 256,
    crop: int | None = 224,
    filter: str = "bilinear",
) -> FileImages:
    """``CLASS/*.JPEG``, such as the training or validation images of ImageNet.

    Labels are the places of the folders in the order of their names.
    """
    root = Path(root)
    names, labels = list_classes(root, list_folders(root))
    return FileImages(root, names, labels, Preprocess(resize, crop, filter))
