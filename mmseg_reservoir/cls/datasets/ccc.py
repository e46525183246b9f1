"""CCC, Continuously Changing Corruptions (Press et al., NeurIPS 2023), as its generator writes it.

A run is a folder ``baseline_B_transition+speed_S_seed_N`` with shards ``serial_00000.tar``, ... in
the order of the stream. A shard holds, for each image, ``sample_I.input.jpg``,
``sample_I.output.cls`` (the class) and ``sample_I.info`` (both corruptions and their severities). A
shard may also be a folder of that name, unpacked.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ...check.manifest import manifest_hash
from ...check.tar import is_closed
from ...errors import ReservoirError
from ...known_datasets import CCC_RUN, IMAGENET_CLASSES
from .preprocess import Preprocess

SHARD = re.compile(r"serial_(\d+)(\.tar)?")
IMAGE, LABEL, INFO = "input.jpg", "output.cls", "info"


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
        crop: Images are 224 x 224 already; see `Preprocess`.
        resize: See `Preprocess`.
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
        for shard in self.shards:
            files = _tar_files(shard) if shard.suffix == ".tar" else _folder_files(shard)
            for name, parts in _samples(files, shard):
                yield self._decode(f"{shard}: {name}", parts)

    def manifest(self) -> str:
        """A hash over the names and sizes of the shards: the order of the stream is in them."""
        paths = [p for s in self.shards for p in ([s] if s.is_file() else sorted(s.iterdir()))]
        return manifest_hash(paths, self.folder)

    def _decode(self, name: str, parts: dict[str, bytes]) -> Sample:
        try:
            label = int(parts[LABEL])
        except ValueError as error:
            raise ReservoirError(f"{name} has the label {parts[LABEL][:20]!r}: {_MEND}") from error
        image = self.preprocess(io.BytesIO(parts[IMAGE]), name)
        return Sample(image, label, _domain(parts.get(INFO, b"").decode("utf-8", "replace")))


def list_shards(folder: Path) -> list[Path]:
    """Shards in the order of their numbers; an archive goes before its unpacked copy."""
    found: dict[int, Path] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.suffix != ".tar"):
        match = SHARD.fullmatch(path.name)
        if match and (path.is_dir() or path.suffix == ".tar"):
            found.setdefault(int(match[1]), path)
    numbers = sorted(found)
    gap = next((n for n, there in enumerate(numbers) if n != there), None)
    if gap is not None:
        raise ReservoirError(
            f"{folder} has shards up to serial_{numbers[-1]:05d}, but no serial_{gap:05d}: the "
            "stream would jump; generate or download it"
        )
    return [found[number] for number in numbers]


def _find_run(root: Path, wanted: tuple[int, int, int]) -> Path:
    if CCC_RUN.fullmatch(root.name) and root.is_dir():
        return root
    runs = {}
    for path in sorted(root.iterdir()) if root.is_dir() else []:
        match = CCC_RUN.fullmatch(path.name)
        if match:
            runs[tuple(map(int, match.groups()))] = path
    if wanted not in runs:
        there = ", ".join(path.name for path in runs.values()) or "no run of CCC"
        raise ReservoirError(
            f"no run with baseline {wanted[0]}, speed {wanted[1]}, seed {wanted[2]} in {root}; "
            f"it has {there}"
        )
    return runs[wanted]


def _tar_files(shard: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                if member.isfile():
                    yield Path(member.name).name, archive.extractfile(member).read()
        if not is_closed(shard):
            raise tarfile.ReadError("it breaks off")
    except (tarfile.TarError, OSError) as error:
        raise ReservoirError(f"{shard} is damaged ({error}): {_MEND}") from error


def _folder_files(shard: Path) -> Iterator[tuple[str, bytes]]:
    def by_number(path: Path) -> tuple[int, str]:
        digits = re.findall(r"\d+", path.name.split(".")[0])
        return (int(digits[-1]) if digits else -1, path.name)

    # sample_10 comes after sample_9, not after sample_1.
    for path in sorted(shard.iterdir(), key=by_number):
        if path.is_file() and not path.name.startswith("."):
            yield path.name, path.read_bytes()


def _samples(
    files: Iterator[tuple[str, bytes]], shard: Path
) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Neighbouring files that have the same name before the first dot belong together."""
    current, parts = None, {}
    for name, data in files:
        key, _, part = name.partition(".")
        if key != current and current is not None:
            yield _complete(current, parts, shard)
            parts = {}
        current = key
        parts[part] = data
    if current is not None:
        yield _complete(current, parts, shard)


def _complete(name: str, parts: dict[str, bytes], shard: Path) -> tuple[str, dict[str, bytes]]:
    missing = [part for part in (IMAGE, LABEL) if part not in parts]
    if missing:
        raise ReservoirError(f"{shard} has no {name}.{missing[0]}: {_MEND}")
    return name, parts


def _domain(info: str) -> str:
    """``++n1++fog++s1++1.5++n2++snow++s2++0.25`` to ``fog+snow``."""
    words = info.split("++")[1:]
    about = dict(zip(words[::2], words[1::2], strict=False))
    return f"{about['n1']}+{about['n2']}" if {"n1", "n2"} <= about.keys() else "unknown"


_MEND = "generate or download the shard again"
