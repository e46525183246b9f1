"""CCC, Continuously Changing Corruptions (Press et al., NeurIPS 2023), as its generator writes it.

A run is a folder ``baseline_B_transition+speed_S_seed_N`` of `shards`. A shard holds, for each
image, ``sample_I.input.jpg``, ``sample_I.output.cls`` (the class) and ``sample_I.info`` (both
corruptions and their severities).
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ReservoirError
from .disk_layout import Cell, Layout
from .imagenet_c import IMAGENET_CLASSES
from .manifest import manifest_hash
from .pictures import Preprocess, list_folders
from .shards import IMAGE, INFO, LABEL, MEND, list_shards, read_samples

if TYPE_CHECKING:
    from torch import Tensor

RUN = re.compile(r"baseline_(\d+)(?:\.0)?_transition.speed_(\d+)_seed_(\d+)")
"""Folder of a run: baseline, speed, seed; the generator writes ``transition+speed``."""
RUN_IMAGES = 7_500_000
"""Of a run, at least: the generator fills its last shard."""
SHARD_IMAGES = 25_000
"""Of a shard, at least: the generator ends it with a step of the transition."""


def shards_of(speed: int) -> tuple[int, int]:
    """Shards of a run, and images of a shard; both are filled up with whole steps."""
    images = -(-SHARD_IMAGES // speed) * speed
    return -(-RUN_IMAGES // images), images


def list_runs(root: Path) -> dict[Path, tuple[int, int, int]]:
    """The runs in a folder, sorted by name: baseline, speed and seed of each."""
    matches = {root / name: RUN.fullmatch(name) for name in list_folders(root)}
    return {folder: tuple(map(int, m.groups())) for folder, m in matches.items() if m}


def _cell(folder: Path, baseline: int, speed: int, seed: int) -> Cell:
    shards, images = shards_of(speed)
    expected = shards if any(folder.glob("*.tar")) else shards * images
    return Cell(f"baseline{baseline}", f"speed{speed}_seed{seed}", folder.name, expected=expected)


LAYOUT = Layout(
    title="CCC",
    # One for each run that is there: nobody needs all 27.
    cells=lambda root: [_cell(folder, *numbers) for folder, numbers in list_runs(root).items()],
    marks=("baseline_*_seed_*",),
    image_suffix=(".tar", ".input.jpg"),
    download=(
        "generate it with github.com/oripress/CCC, so that {root} holds "
        "baseline_B_transition+speed_S_seed_N/serial_00000.tar, ..."
    ),
)


@dataclass(frozen=True)
class Sample:
    """One image of CCC.

    Attributes:
        image: ``(3, H, W)``, floats in [0, 1].
        label: Its class.
        domain: The pair of corruptions, ``"fog+contrast"``; ``"unknown"`` without an info.
    """

    image: Tensor
    label: int
    domain: str


class CCC:
    """One run of CCC.

    Args:
        root: The folder of the runs, or of one run.
        baseline: Difficulty: the accuracy in percent that a ResNet-50 keeps. 40 easy, 20 medium,
            0 hard.
        speed: Images between two steps of the transition: 1000, 2000 or 5000.
        run_seed: 43, 44 or 45.
        crop, resize: See `Preprocess`; images are 224 x 224 already.
    """

    title = "CCC"
    classes = IMAGENET_CLASSES

    def __init__(
        self,
        root: str | Path,
        baseline: int = 20,
        speed: int = 1000,
        run_seed: int = 43,
        crop: int | None = 224,
        resize: int | tuple[int, int] | None = None,
    ) -> None:
        self.folder = _find_run(Path(root), (baseline, speed, run_seed))
        self.preprocess = Preprocess(resize, crop)
        self.shards = list_shards(self.folder)
        if not self.shards:
            raise ReservoirError(
                f"{self.folder} has no serial_00000.tar or folder serial_00000: see "
                f"tools/check_dataset.py ccc {self.folder.parent}"
            )

    def __iter__(self) -> Iterator[Sample]:
        return self.from_image(0)

    def from_image(self, start: int) -> Iterator[Sample]:
        """The run from this image on; those before it are not decoded."""
        encoded = ((shard, *sample) for shard in self.shards for sample in read_samples(shard))
        for shard, name, parts in islice(encoded, start, None):
            yield self._decode(f"{shard}: {name}", parts)

    def manifest(self) -> str:
        """A hash over the names and sizes of the shards: the order of the stream is in them."""
        paths = [p for s in self.shards for p in ([s] if s.is_file() else sorted(s.iterdir()))]
        return manifest_hash(paths, self.folder)

    def _decode(self, name: str, parts: dict[str, bytes]) -> Sample:
        try:
            label = int(parts[LABEL])
        except ValueError as error:
            raise ReservoirError(f"{name} has the label {parts[LABEL][:20]!r}: {MEND}") from error
        image = self.preprocess(io.BytesIO(parts[IMAGE]), name)
        return Sample(image, label, _domain(parts.get(INFO, b"").decode("utf-8", "replace")))


def _find_run(root: Path, wanted: tuple[int, int, int]) -> Path:
    if RUN.fullmatch(root.name) and root.is_dir():
        return root
    runs = {numbers: folder for folder, numbers in list_runs(root).items()}
    if wanted not in runs:
        there = ", ".join(folder.name for folder in runs.values()) or "no run of CCC"
        raise ReservoirError(
            f"no run with baseline {wanted[0]}, speed {wanted[1]}, seed {wanted[2]} in {root}; "
            f"it has {there}"
        )
    return runs[wanted]


def _domain(info: str) -> str:
    """``++n1++fog++s1++1.5++n2++snow++s2++0.25`` to ``fog+snow``."""
    words = info.split("++")[1:]
    fields = dict(zip(words[::2], words[1::2], strict=False))
    return f"{fields['n1']}+{fields['n2']}" if {"n1", "n2"} <= fields.keys() else "unknown"
