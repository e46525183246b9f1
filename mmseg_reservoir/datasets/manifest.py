"""A hash by which two people can tell whether they have the same files, and what a run records."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def manifest_hash(
    paths: Iterable[str | Path], root: str | Path, contents: Mapping[Path, str] | None = None
) -> str:
    """Sha256 over the sorted names and the sizes of files, the same on every machine.

    Args:
        paths: The files, in any order.
        root: Names are relative to this folder, with ``/`` between their parts.
        contents: The sha256 of each file, to be hashed too.

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
    return hashlib.sha256("".join(sorted(lines)).encode("utf-8")).hexdigest()


def describe_loader(loader: Any) -> dict[str, Any]:
    """Count, manifest and order of the data behind a dataloader of mmengine, for a run's record.

    Returns:
        ``images``: how many; ``manifest``: the hash over names and sizes of images and labels that
        tools/check_dataset.py prints too, None if the files are not on this disk; ``sorted``:
        whether the stream is in the order of the names (False where the sampler does not say).
    """
    dataset = loader.dataset
    samples = [dataset.get_data_info(index) for index in range(len(dataset))]
    images = [str(sample["img_path"]) for sample in samples]
    labels = [str(sample["seg_map_path"]) for sample in samples if sample.get("seg_map_path")]
    files = [path for path in (*images, *labels) if Path(path).is_file()]
    in_order = getattr(loader.sampler, "shuffle", None) is False and images == sorted(images)
    manifest = None
    if files:
        # The data set's own root, or else the deepest folder that holds all files.
        own = getattr(dataset, "data_root", None)
        manifest = manifest_hash(files, own or os.path.commonpath(map(os.path.dirname, files)))
    return {"images": len(images), "manifest": manifest, "sorted": in_order}
