"""Load a segmentor outside of a run: its config, its weights and its classes."""

from __future__ import annotations

import copy
import difflib
import importlib.util
import logging
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import mmseg
import numpy as np
import torch
import yaml
from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import MODELS, init_default_scope
from mmseg.datasets import CityscapesDataset
from mmseg.registry import DATASETS
from torch import nn

from ..config.config_files import find_config, read_file
from ..errors import ReservoirError
from ..io.checkpoints import find_weights
from ..io.files import shipped
from .checkpoint import check_compatible, load, read_checkpoints_safely
from .forward import ADVICE, MASK_HEADS

_logger = logging.getLogger(__name__)
_YamlLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, if PyYAML has it
_ZOO = Path(mmseg.__file__).parent / ".mim"
_PIPELINE = [dict(type="LoadImageFromFile"), dict(type="PackSegInputs")]


def find_model(model: str | Path | Config, weights: str | None) -> tuple[Config, str]:
    """Return the config of a model and the file or address of its weights.

    Args:
        model: A config or its file, the name of a bundled config, or the name of a model in
            mmseg's zoo.
        weights: A file or an address; None for those in the zoo or in the config's ``load_from``.
    """
    zoo_weights = None
    if isinstance(model, Config):
        cfg = model.copy()
    elif Path(model).suffix == ".py" or Path(model).is_file():
        cfg = read_file(find_config(model))
    elif (shipped("configs") / f"{model}.py").is_file():
        cfg = read_file(find_config(f"{model}.py"))
    else:
        path, zoo_weights = find_in_zoo(str(model))
        cfg = read_file(path)
    if "model" not in cfg:
        raise ReservoirError(f"{model} has no model: name a config of a segmentor")
    weights = weights or zoo_weights or cfg.get("load_from")
    if not weights:
        raise ReservoirError(
            f"no weights for {cfg.filename or 'the config'}: give weights=FILE (--weights FILE)"
        )
    return _with_test_data(cfg), str(weights)


def find_in_zoo(name: str) -> tuple[Path, str]:
    """Return the config file of a model in mmseg's zoo, and the address of its weights."""
    models = _zoo_models()
    if name not in models:
        near = difflib.get_close_matches(name, models, n=3)
        hint = f" (did you mean {' or '.join(near)}?)" if near else ""
        raise ReservoirError(
            f"{name!r} is no config file, none of ours, and no model of mmseg's zoo{hint}"
        )
    model = models[name]
    if not model.get("Weights"):
        raise ReservoirError(f"mmseg's zoo has no weights of {name}: give weights=FILE")
    return _ZOO / model["Config"], model["Weights"]


@cache
def _zoo_models() -> dict[str, dict[str, Any]]:
    index = _ZOO / "model-index.yml"
    if not index.is_file():
        raise ReservoirError(
            f"mmseg has no {index}, by which names of models are found: install mmsegmentation as "
            "a package, or give a config file and weights"
        )
    files = [_ZOO / name for name in _read_yaml(index)["Import"]]
    metafiles = [_read_yaml(file) for file in files if file.is_file()]
    return {model["Name"]: model for file in metafiles for model in file.get("Models") or []}


def _read_yaml(path: Path) -> dict[str, Any]:
    return yaml.load(path.read_text(encoding="utf-8"), _YamlLoader)


def _with_test_data(cfg: Config) -> Config:
    dataset = (cfg.get("test_dataloader") or {}).get("dataset") or {}
    steps = list(dataset.get("pipeline") or _PIPELINE)
    cfg.test_dataloader = dict(
        batch_size=1,
        num_workers=0,
        sampler=dict(type="DefaultSampler", shuffle=False),
        dataset=dict(type=dataset.get("type"), metainfo=dataset.get("metainfo"), pipeline=steps),
    )
    return cfg


def check_packages(options: Any) -> None:
    """Raise an error if a model, or a part of one, needs an MM package that is not installed."""
    if isinstance(options, (list, tuple)):
        options = dict(enumerate(options))
    if not isinstance(options, Mapping):
        return
    kind = options.get("type")
    scope, dot, _ = kind.partition(".") if isinstance(kind, str) else ("", "", "")
    if kind in MASK_HEADS and importlib.util.find_spec("mmdet") is None:
        raise ReservoirError(
            f"the model's {kind} needs mmdet, which is not installed (pip install mmdet). But it "
            f"gives scores of queries and their masks, which adaptation cannot use: {ADVICE}"
        )
    if dot and scope.startswith("mm") and importlib.util.find_spec(scope) is None:
        raise ReservoirError(
            f"the model's {kind} needs {scope}, which is not installed: pip install {scope}"
        )
    for part in options.values():
        check_packages(part)


def load_model(cfg: Config, weights: str, device: str | torch.device) -> nn.Module:
    """Return a segmentor with its weights in evaluation mode; ``dataset_meta`` has its classes.

    Weights that do not fill the whole model are an error.
    """
    init_default_scope(cfg.get("default_scope") or "mmseg")
    read_checkpoints_safely()
    check_packages(cfg.model)
    options = copy.deepcopy(cfg.model)  # mmseg reads some of them by attribute
    # All weights are loaded below, so the backbone's need not be downloaded.
    options.pop("pretrained", None)
    options.get("backbone", {}).pop("init_cfg", None)
    model = revert_sync_batchnorm(MODELS.build(options))
    checkpoint = load(weights)
    check_compatible(model, checkpoint)
    tensors = find_weights(checkpoint, weights)
    model.load_state_dict({k.removeprefix("module."): v for k, v in tensors.items()}, strict=False)
    model.dataset_meta = _meta(cfg, checkpoint.get("meta") or {}, model)
    return model.to(device).eval()


def _meta(cfg: Config, saved: dict[str, Any], model: nn.Module) -> dict[str, Any]:
    """Return classes and palette from the checkpoint, else the config, else numbered classes."""
    meta = dict(saved.get("dataset_meta") or {})
    if not meta and "CLASSES" in saved:  # mmseg 0.x
        meta = {"classes": saved["CLASSES"], "palette": saved.get("PALETTE")}
    if not meta:
        dataset = cfg.test_dataloader.dataset
        kind = DATASETS.get(dataset.type) if dataset.get("type") else None
        meta = {**getattr(kind, "METAINFO", {}), **(dataset.get("metainfo") or {})}
    classes, count = meta.get("classes") or (), class_count(model)
    if not classes:
        return classes_by_number(count)
    if len(classes) != count:
        _logger.warning(
            "the model has %d classes, the checkpoint or the config names %d: they are called "
            "class 0 to class %d; set test_dataloader.dataset.metainfo=dict(classes=...)",
            count,
            len(classes),
            count - 1,
        )
        return _numbered_classes(count)
    palette = meta.get("palette") or ()
    if len(palette) != count:
        palette = _numbered_classes(count)["palette"]
    return {"classes": tuple(classes), "palette": palette}


def class_count(model: Any) -> int:
    """Return the number of classes of a segmentor."""
    head: Any = model.decode_head
    last: Any = head[-1] if isinstance(head, nn.ModuleList) else head
    return last.num_classes


def classes_by_number(count: int) -> dict[str, Any]:
    """Return numbered classes and a palette, for a model without class names."""
    if count == len(CityscapesDataset.METAINFO["classes"]):
        _logger.warning("the model does not name its classes: %d, taken for Cityscapes'", count)
        return dict(CityscapesDataset.METAINFO)
    return _numbered_classes(count)


def _numbered_classes(count: int) -> dict[str, Any]:
    colors = np.random.default_rng(0).integers(0, 256, (count, 3)).tolist()
    return {"classes": tuple(f"class {index}" for index in range(count)), "palette": colors}


def is_cityscapes(meta: dict[str, Any]) -> bool:
    """Return whether a model has Cityscapes' classes."""
    return tuple(meta["classes"]) == tuple(CityscapesDataset.METAINFO["classes"])
