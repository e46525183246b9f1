"""Datasets of street scenes by name, for ``test_cfg.domains=["dark_zurich", ...]``.

Each is a dataset of mmseg, or ours if mmseg has none, with the folders as published. All have
Cityscapes' classes. Their layouts are in ``datasets/street_scenes.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from mmseg.datasets import BaseSegDataset
from mmseg.registry import DATASETS

from ..errors import ReservoirError
from ..registry import suggest

Domains = Annotated[Sequence[str | Mapping], "a list of domains"]


def _folders(images: str, labels: str) -> dict[str, dict[str, str]]:
    return {"data_prefix": {"img_path": images, "seg_map_path": labels}}


NAMED_SETS: dict[str, dict[str, Any]] = {
    "cityscapes_val": {
        "type": "CityscapesDataset",
        "data_root": "data/cityscapes",
        **_folders("leftImg8bit/val", "gtFine/val"),
    },
    "dark_zurich": {
        "type": "DarkZurichDataset",
        "data_root": "data/dark_zurich",
        **_folders("rgb_anon/val/night", "gt/val/night"),
    },
    "foggy_cityscapes": {
        "type": "CityscapesDataset",
        "data_root": "data/foggy_cityscapes",
        "img_suffix": "_leftImg8bit_foggy_beta_0.02.png",  # the densest fog of three
        **_folders("leftImg8bit_foggy/val", "gtFine/val"),
    },
    "bdd100k": {
        "type": "BDD100KDataset",
        "data_root": "data/bdd100k",
        **_folders("images/10k/val", "labels/sem_seg/masks/val"),
    },
    "shift": {
        "type": "SHIFTDataset",
        "data_root": "data/shift",
        **_folders("discrete/images/val/front/img", "discrete/images/val/front/semseg"),
    },
}
"""Options of the dataset of each set, without its pipeline."""


def dataset_of(domain: str | Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dataset options of a domain, from its entry in ``test_cfg``.

    A string is the name of a set in `NAMED_SETS`, or else a ``condition`` of the usual dataset.
    A dict has changes to the usual dataset, or with ``set="dark_zurich"`` to a named set. A dict
    with another ``type`` gets only the pipeline of the usual dataset. Its ``name`` is ignored.

    Labels are optional: ``data_prefix=dict(img_path=..., seg_map_path=None)`` has none. A type
    without classes, such as mmseg's ``BaseSegDataset``, gets those of the usual dataset.
    """
    if isinstance(domain, str):
        domain = {"set": domain} if domain in NAMED_SETS else {"condition": domain}
    changes = {key: value for key, value in domain.items() if key != "name"}
    named = changes.pop("set", None)
    if named is not None and named not in NAMED_SETS:
        raise ReservoirError(f"there is no set {named!r}{suggest(named, NAMED_SETS)}")
    base = usual
    if named is not None or changes.get("type", usual.get("type")) != usual.get("type"):
        # Other options of the usual dataset are not valid for another type.
        pipeline = {"pipeline": usual["pipeline"]} if "pipeline" in usual else {}
        base = {**NAMED_SETS.get(named, {}), **pipeline}
    dataset = {**base, **changes}
    prefix = dataset.get("data_prefix")
    if isinstance(prefix, Mapping):  # mmengine refuses None
        dataset["data_prefix"] = {key: path for key, path in prefix.items() if path is not None}
    if lacks_classes(dataset) and _metainfo(usual).get("classes"):
        dataset["metainfo"] = {**(dataset.get("metainfo") or {}), **_metainfo(usual)}
    return dataset


def lacks_classes(dataset: Mapping[str, Any]) -> bool:
    """Return whether dataset options name an mmseg dataset without classes."""
    kind = _class_of(dataset)
    is_mmsegs = isinstance(kind, type) and issubclass(kind, BaseSegDataset)
    return is_mmsegs and not _metainfo(dataset).get("classes")


def _class_of(dataset: Mapping[str, Any]) -> Any:
    kind = dataset.get("type")
    return DATASETS.get(kind) if isinstance(kind, str) else kind


def _metainfo(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """Return classes and palette from dataset options, as far as they have them."""
    return {**getattr(_class_of(dataset), "METAINFO", {}), **(dataset.get("metainfo") or {})}


def domains_by_name(domains: Sequence[str | Mapping], option: str) -> dict[str, str | Mapping]:
    """Return the entries of ``test_cfg`` by the name of the domain."""
    named: dict[str, str | Mapping] = {}
    for domain in domains:
        name = domain.get("name") if isinstance(domain, Mapping) else domain
        if not isinstance(name, str) or not name or name in named:
            raise ReservoirError(
                f"each domain of test_cfg.{option} needs a unique name, got {domains!r}: write "
                '"fog", or dict(name="fog", ...)'
            )
        named[name] = domain
    return named


def with_new_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of ``test_cfg`` with old names replaced, with a warning."""
    new_names = {"also": "extra_eval_sets"}
    for old in new_names.keys() & options:
        message = f"test_cfg.{old} is now test_cfg.{new_names[old]}"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
    return {new_names.get(name, name): value for name, value in options.items()}


def read_dataset(name: str, options: Mapping[str, Any]) -> Any:
    """Return the dataset of a domain with its list of images; raise an error if it is empty."""
    advice = "set data_root, data_prefix=dict(img_path=FOLDER) and img_suffix of this domain"
    try:
        dataset = DATASETS.build(options)
        if hasattr(dataset, "full_init"):
            dataset.full_init()  # as the runner does
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ReservoirError(
            f"the domain {name!r} has no folder {error.filename}: {advice}"
        ) from error
    except ValueError as error:
        if "need at least one array" not in str(error):  # mmengine's error without images
            raise
        suffix = options.get("img_suffix", "")
        raise ReservoirError(
            f"the domain {name!r}, a {options['type']}, has no images *{suffix}: {advice}"
        ) from error
    return dataset
