"""Segment frames in Python and adapt to them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmcv.transforms import Compose
from mmengine.config import Config
from mmengine.dataset import pseudo_collate

from ..config.builder import SEGMENTATION
from ..config.config_files import merge_options, warm_start
from ..core.outcome import NO_PREDICTION
from ..core.reservoir_pipeline import ReservoirPipeline
from ..errors import ReservoirError
from ..registry import suggest
from ..seg.datasets import without_labels
from ..seg.forward import check_model
from ..seg.hooks.adaptation_hook import CONFIG_KEYS, make_plan
from ..seg.model_loading import find_model, is_cityscapes, load_model
from ..seg.segmentor import AdaptiveSegmentor
from ..seg.source_images import context_of
from ..snapshot import load_reservoir, read_folder, save_reservoir
from ..style.shipped_styles import misfit, with_cityscapes_styles
from .frame_source import FrameResult, InputFrame
from .frames import open_frames

_logger = logging.getLogger(__name__)

DEFAULTS = {
    "method": {"type": "tent", "optimizer": dict(SEGMENTATION.optimizer)},
    "reservoir": {"preset": "robust"},
}
"""Adaptation for configs without a method."""

_LARGE = 4
"""Ratio of frame to training crop, in pixels, above which to warn. Cityscapes has up to four."""


class ReservoirInferencer:
    """An inferencer that segments frames and adapts to them, similar to ``MMSegInferencer``.

    Example::

        inferencer = ReservoirInferencer("segformer_mit-b0_8xb1-160k_cityscapes-1024x1024")
        for frame in inferencer("drive.mp4"):
            print(frame.name, frame.expert, frame.k, frame.labels.shape)
        inferencer.save("drive_reservoir")

    Several threads may call it. They prepare frames in parallel, but the model segments one frame
    at a time. Methods that change or save the model wait for the current frame.

    Args:
        model: A config or its file, the name of a bundled config, or a name in mmseg's model zoo.
            The model must return logits per pixel.
        weights: Weights of the model. Defaults to those of the zoo, which are downloaded at first
            use, or ``load_from`` of the config.
        start_from: Folder of :meth:`save` with the initial experts. Defaults to None.
        adapt: Whether to adapt, instead of only predicting with the experts of ``start_from`` or
            the source model. Defaults to True.
        size: Width and height of the model's input, in pixels. Defaults to those of the test
            pipeline. Labels have the size of the frame.
        seed: Seed of the method and the router. Defaults to 0.
        device: Device of the model. Defaults to a GPU if one is available.
        cfg_options: Changes to the config by dotted keys, such as ``{"reservoir.k_max": 8}``.
            Defaults to none.
        **adaptation: ``method``, ``params``, ``statistics``, ``reservoir`` and ``source_images``,
            which replace those of the config. A config without a method gets TENT with the preset
            ``robust``. Without source images, a model with Cityscapes' classes is calibrated on
            the bundled styles of Cityscapes.
    """

    def __init__(
        self,
        model: str | os.PathLike | Config,
        weights: str | os.PathLike | None = None,
        start_from: str | os.PathLike | None = None,
        *,
        adapt: bool = True,
        size: tuple[int, int] | None = None,
        seed: int = 0,
        device: str | torch.device | None = None,
        cfg_options: Mapping[str, Any] | None = None,
        **adaptation: Any,
    ) -> None:
        self.cfg, file = find_model(model, None if weights is None else str(weights))
        if size is not None:
            self.cfg.test_dataloader.dataset.pipeline = _resized(self._steps, size)
        self._choose_adaptation(adaptation, plain=not (adapt or start_from))
        merge_options(self.cfg, cfg_options or {}, (*CONFIG_KEYS, "source_images"))
        if start_from is not None:
            self._continue(start_from, frozen=not adapt)
        self.plan = make_plan(self.cfg, seed)  # checks options before weights are read
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        segmentor: Any = load_model(self.cfg, file, device)
        self.dataset_meta: dict[str, Any] = segmentor.dataset_meta
        """``classes`` and ``palette``."""
        needs_styles = self.plan.needs_calibration
        self._by_shipped_styles = needs_styles and not self.cfg.get("source_images")
        if self._by_shipped_styles:
            self._take_shipped_styles()
        _logger.info(self.plan.describe())
        context = context_of(self.cfg, segmentor)
        pipeline = self.plan.assemble(context)
        self.plan.calibrate(pipeline, context)
        self.model = AdaptiveSegmentor(segmentor, pipeline).eval()
        self.model.frozen = not adapt
        self._size_is_chosen = size is not None
        self._transform = Compose([dict(type="LoadImageFromNDArray"), *_after_loading(self._steps)])
        self._is_checked = False

    @property
    def _steps(self) -> list[dict]:
        return self.cfg.test_dataloader.dataset.pipeline

    def _choose_adaptation(self, adaptation: dict[str, Any], plain: bool) -> None:
        valid = (*CONFIG_KEYS, "source_images")
        for name in adaptation:
            if name not in valid:
                raise ReservoirError(
                    f"ReservoirInferencer has no option {name!r}{suggest(name, valid)}"
                )
        if plain:
            adaptation = dict.fromkeys(valid) | {"method": "source"}
        elif self.cfg.get("method") is None:
            adaptation = {**DEFAULTS, **adaptation}
        self.cfg.update(adaptation)

    def _continue(self, folder: str | os.PathLike, frozen: bool) -> None:
        """Use a saved reservoir, and its image size for styles."""
        reservoir = warm_start(self.cfg.get("reservoir"), str(folder), frozen)
        saved = read_folder(folder).identity["style"]
        if isinstance(saved, Mapping) and "size" in saved:
            reservoir["style"] = {"size": saved["size"], **(reservoir.get("style") or {})}
        self.cfg.reservoir = reservoir

    def _take_shipped_styles(self) -> None:
        """Use the bundled styles to calibrate a model with Cityscapes' classes."""
        classes = self.dataset_meta["classes"]
        if not is_cityscapes(self.dataset_meta):
            raise ReservoirError(
                f"the model has {len(classes)} classes that are not Cityscapes', so the bundled "
                "styles are not those of its source: give "
                "source_images=dict(data_root=FOLDER) (--source-images FOLDER) with images that "
                "it was trained on"
            )
        reservoir = self.cfg.reservoir
        reservoir = {"preset": reservoir} if isinstance(reservoir, str) else reservoir
        self.cfg.reservoir = with_cityscapes_styles(reservoir)
        self.plan.replace(reservoir=self.cfg.reservoir)

    def __call__(self, inputs: Any, every: int = 1) -> Iterator[FrameResult]:
        """Yield the result of each frame of any input of :func:`open_frames`, and adapt to it."""
        for frame in open_frames(inputs, every):
            yield self.segment(frame)

    @torch.no_grad()
    def segment(self, frame: InputFrame) -> FrameResult:
        """Return the result of one frame, and adapt to it."""
        data = self._transformed(frame)
        if not self._is_checked:
            self._check(frame, self.model.data_preprocessor(data, False)["inputs"])
        sample = self.model.test_step(data)[0]
        confidence = sample.seg_logits.data.float().softmax(dim=0).amax(dim=0)
        return FrameResult(
            **vars(frame),
            labels=sample.pred_sem_seg.data[0].cpu().numpy().astype(np.uint8),
            confidence=confidence.cpu().numpy(),
            outcome=replace(sample.outcome, logits=NO_PREDICTION),
        )

    def _transformed(self, frame: InputFrame) -> dict[str, Any]:
        data = self._transform({"img": frame.image})
        data["data_samples"].set_metainfo({"img_path": frame.name})
        return pseudo_collate([data])

    def _check(self, frame: InputFrame, inputs: torch.Tensor) -> None:
        """Check at the first frame that the model can adapt to frames of this size."""
        if self._by_shipped_styles:
            for height, width in (frame.image.shape[:2], tuple(inputs.shape[-2:])):
                problem = misfit(height, width)
                if problem:
                    raise ReservoirError(
                        f"frames of {width}x{height} are {problem}, so the bundled styles of "
                        "Cityscapes cannot be compared with theirs: give "
                        "source_images=dict(data_root=FOLDER) (--source-images FOLDER)"
                    )
        self._warn_of_large(frame, inputs)
        with self.model.pipeline.lock:
            check_model(self.model.segmentor, inputs)
        self._is_checked = True

    def _warn_of_large(self, frame: InputFrame, inputs: torch.Tensor) -> None:
        trained = _trained_size(self.cfg)
        if trained is None or self._size_is_chosen:
            return
        times = inputs[0, 0].numel() / (trained[0] * trained[1])
        if times <= _LARGE:
            return
        height, width = frame.image.shape[:2]
        scale = max(trained[0] / height, trained[1] / width)
        size = round(width * scale), round(height * scale)
        _logger.warning(
            "frames reach the model as %dx%d, %.0f times the pixels of the %dx%d that it was "
            "trained on, which is slow and may cost accuracy: give size=%s (--size %dx%d)",
            *(inputs.shape[-1], inputs.shape[-2], times, trained[1], trained[0], size, *size),
        )

    def freeze(self, frozen: bool = True) -> ReservoirInferencer:
        """Stop or resume the adaptation. Frames are still routed to the existing experts."""
        with self.model.pipeline.lock:
            self.model.frozen = frozen
        return self

    def reset(self, expert: int) -> ReservoirInferencer:
        """Reset an expert to the source."""
        with self.model.pipeline.lock:
            self.model.pipeline.reset_expert(expert)
        return self

    def expert_state(self, expert: int) -> dict[str, Any]:
        """Return the state of an expert (see `AdaptationPipeline.expert_state`)."""
        return self.model.pipeline.expert_state(expert)

    @property
    def has_reservoir(self) -> bool:
        """Whether there are experts to save."""
        return isinstance(self.model.pipeline, ReservoirPipeline)

    def save(self, folder: str | os.PathLike) -> Path:
        """Save the experts and the state of their domains in a folder, and return it."""
        return save_reservoir(self.model.pipeline, folder, {"options": self.plan.options})

    def load(self, folder: str | os.PathLike) -> ReservoirInferencer:
        """Replace the experts by those in a folder of :meth:`save`."""
        load_reservoir(self.model.pipeline, folder)
        return self


def _trained_size(cfg: Config) -> tuple[int, int] | None:
    """Return height and width of a model's training crops; None if its config has none."""
    size = cfg.model.get("data_preprocessor", {}).get("size") or cfg.get("crop_size")
    # With slide inference, the model gets single crops of an image.
    if size is None or (cfg.model.get("test_cfg") or {}).get("mode") == "slide":
        return None
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _after_loading(steps: list[dict]) -> list[dict]:
    return [s for s in without_labels(steps) if not str(s["type"]).startswith("LoadImage")]


def _resized(steps: list[dict], size: tuple[int, int]) -> list[dict]:
    """Return a test pipeline that resizes images to this width and height."""
    if len(size) != 2 or not all(isinstance(side, int) and side > 0 for side in size):
        raise ReservoirError(f"size must be (width, height) in pixels, got {size!r}")
    resize = dict(type="Resize", scale=tuple(size), keep_ratio=False)
    rest = [step for step in _after_loading(steps) if step["type"] != "Resize"]
    return [dict(type="LoadImageFromFile"), resize, *rest]
