"""Hashes that show whether two copies of a data set have the same files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..io.files import digest


def manifest_hash(
    paths: Iterable[str | Path], root: str | Path, contents: Mapping[Path, str] | None = None
) -> str:
    """Return the sha256 of the sorted names and sizes of files, equal on every machine.

    Args:
        paths: Files, in any order.
        root: Folder to which the names are relative.
        contents: The sha256 of each file, to include the content in the hash.

    Example:
        >>> manifest_hash([], "data")[:8]
        'e3b0c442'
    """
    lines = []
    for path in {Path(path) for path in paths}:
        name = Path(os.path.relpath(path, root)).as_posix()
        parts = [name, str(path.stat().st_size)]
        if contents is not None:
            parts.append(contents[path])
        lines.append("\t".join(parts) + "\n")
    return digest("".join(sorted(lines)))


def describe_loader(loader: Any) -> dict[str, Any]:
    """Return a description of a dataloader's data for the record of a run.

    Returns:
        ``images``: the number of images. ``manifest``: the hash of images and labels, as in
        ``reservoir check``; None if the files are not on this disk. ``sorted``: whether the
        images are certainly in the order of their names.
    """
    dataset = loader.dataset
    samples = [dataset.get_data_info(index) for index in range(len(dataset))]
    images = [str(sample["img_path"]) for sample in samples]
    labels = [str(sample["seg_map_path"]) for sample in samples if sample.get("seg_map_path")]
    files = [path for path in (*images, *labels) if Path(path).is_file()]
    in_order = getattr(loader.sampler, "shuffle", None) is False and images == sorted(images)
    manifest = None
    if files:
        # Without a root, names are relative to the deepest common folder.
        root = getattr(dataset, "data_root", None)
        manifest = manifest_hash(files, root or os.path.commonpath(map(os.path.dirname, files)))
    return {"images": len(images), "manifest": manifest, "sorted": in_order}
