"""What a run writes down about its data, for ``results.json``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .manifest import manifest_hash


def describe_loader(loader: Any) -> dict[str, Any]:
    """Count, manifest and order of the data behind a dataloader of mmengine.

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
    manifest = manifest_hash(files, _root(dataset, files)) if files else None
    return {"images": len(images), "manifest": manifest, "sorted": in_order}


def _root(dataset: Any, files: list[str]) -> str:
    """The data set's own root, or else the deepest folder that holds all files."""
    root = getattr(dataset, "data_root", None)
    return root or os.path.commonpath([os.path.dirname(path) for path in files])
