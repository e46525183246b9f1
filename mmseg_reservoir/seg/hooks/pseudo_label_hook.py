"""Pictures of pseudo-labels: image | pseudo-label | ground truth | baseline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ...core.outcome import NOT_ADAPTING
from ...errors import ReservoirError
from ..label_images import legend, overlay, paint, write_image

_CAPTION_HEIGHT = 22


@HOOKS.register_module()
class PseudoLabelHook(Hook):
    """Saves chosen frames below ``show_dir/round{r}/{domain}/``.

    - ``{name}.png``: the panel
    - ``{name}_overlay.png``: the predicted labels over the image, with a legend
    - ``{name}_labelTrainIds.png``: the predicted train ids, which a later run can show as baseline
    - ``{name}_groundTruth.png``: the true train ids, if the frame is labeled

    Args:
        show_dir: Folder of the pictures.
        frames: Positions within a visit, a number of evenly spaced frames, or ``"all"``. Defaults
            to ``(0,)``, the first image.
        rounds: Rounds to save. Defaults to None, all rounds.
        baseline: ``"source"`` (the model before adaptation), or the ``show_dir`` of another run
            with the same frames. Defaults to None, no baseline.
        max_width: Maximum width of each picture in a panel, in pixels. Defaults to 640.
    """

    def __init__(
        self,
        show_dir: str,
        frames: Sequence[int] | int | Literal["all"] = (0,),
        rounds: Sequence[int] | None = None,
        baseline: str | None = None,
        max_width: int = 640,
    ) -> None:
        self.show_dir = Path(show_dir)
        if isinstance(frames, str) and frames != "all":
            raise ReservoirError(f"frames to show: positions, a number or 'all', got {frames!r}")
        self.frames = frames
        self.rounds = None if rounds is None else frozenset(rounds)
        self.baseline = baseline
        self.max_width = max_width
        self._next = 0  # position in the visit

    def state_dict(self) -> dict[str, int]:
        """Return the position of the next frame in the visit."""
        return {"next": self._next}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._next = state["next"]

    def before_test_epoch(self, runner: Runner) -> None:
        """Count from the first frame of the visit, except in a visit that is resumed."""
        if not getattr(runner.test_loop, "batches_done", 0):
            self._next = 0
        count = len(runner.test_loop.dataloader.dataset)
        if self.frames == "all":
            self._chosen: Sequence[int] = range(count)
        elif isinstance(self.frames, int):
            self._chosen = np.linspace(0, count - 1, self.frames).round().astype(int).tolist()
        else:
            self._chosen = self.frames

    def after_test_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any, outputs: Any
    ) -> None:
        visit = runner.test_loop.visit
        first, self._next = self._next, self._next + len(outputs)
        if self.rounds is not None and visit.round not in self.rounds:
            return
        where = Path(f"round{visit.round}") / visit.domain
        for offset, sample in enumerate(outputs):
            if first + offset in self._chosen:
                data = {key: [value[offset]] for key, value in data_batch.items()}
                self._save(runner, data, sample, where)

    def _save(self, runner: Runner, data: dict, sample: Any, where: Path) -> None:
        name = Path(sample.img_path).stem
        folder = self.show_dir / where
        meta = runner.test_loop.dataloader.dataset.metainfo
        palette = meta["palette"]
        label = sample.pred_sem_seg.data[0].cpu().numpy().astype(np.uint8)
        outcome = sample.get("outcome", NOT_ADAPTING)
        expert = f"pseudo-label (expert {outcome.expert}, K = {outcome.k})"
        image = cv2.imread(sample.img_path, cv2.IMREAD_COLOR)
        if image is None:
            raise ReservoirError(f"cannot read the image {sample.img_path}")
        pictures = {"image": image, expert: paint(label, palette)}
        if "gt_sem_seg" in sample:
            truth = sample.gt_sem_seg.data[0].cpu().numpy().astype(np.uint8)
            pictures["ground truth"] = paint(truth, palette)
            write_image(folder / f"{name}_groundTruth.png", truth)
        if self.baseline is not None:
            baseline = self._baseline(runner, data, where / f"{name}_labelTrainIds.png")
            pictures[f"baseline: {Path(self.baseline).name}"] = paint(baseline, palette)
        write_image(folder / f"{name}_labelTrainIds.png", label)
        write_image(folder / f"{name}.png", panel(pictures, self.max_width))
        explained = legend(label, meta["classes"], palette, label.shape[1])
        shown = np.vstack([overlay(image, label, palette), explained])
        write_image(folder / f"{name}_overlay.png", shown)

    def _baseline(self, runner: Runner, data: dict, file: Path) -> np.ndarray:
        if self.baseline == "source":
            return runner.model.source_label(data).cpu().numpy()
        assert self.baseline is not None  # callers need a folder as baseline
        path = Path(self.baseline) / file
        label = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE) if path.is_file() else None
        if label is None:
            raise ReservoirError(
                f"the baseline has no picture {path}: run it with the same frames and rounds "
                "first, or use baseline='source'"
            )
        return label


def panel(pictures: dict[str, np.ndarray], max_width: int) -> np.ndarray:
    """Return the pictures (BGR) side by side, each below its caption."""
    height, width = next(iter(pictures.values())).shape[:2]
    size = (min(width, max_width), round(height * min(1, max_width / width)))
    columns = []
    for caption, picture in pictures.items():
        column = np.full((size[1] + _CAPTION_HEIGHT, size[0], 3), 255, np.uint8)
        column[_CAPTION_HEIGHT:] = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        cv2.putText(
            column, caption, (4, 15), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 0), 1, cv2.LINE_AA
        )
        columns += [column, np.full((len(column), 4, 3), 255, np.uint8)]
    return np.hstack(columns[:-1])
