"""Shards of samples, as CCC's generator writes them: a part of a sample is ``NAME.PART``.

A folder has ``serial_00000.tar``, ... in the order of the stream; a shard may also be a folder of
that name, unpacked.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from ..errors import ReservoirError

SHARD = re.compile(r"serial_(\d+)(\.tar)?")
IMAGE, LABEL, INFO = "input.jpg", "output.cls", "info"
NEEDED = (IMAGE, LABEL)
"""What each sample must have; the name before the first dot is the sample's."""
END = 1024
"""Bytes of zeros that close an archive."""
MEND = "generate or download the shard again"


def list_shards(folder: Path) -> list[Path]:
    """Shards in the order of their numbers; an archive goes before its unpacked copy."""
    shards: dict[int, Path] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.suffix != ".tar"):
        match = SHARD.fullmatch(path.name)
        if match and (path.is_dir() or path.suffix == ".tar"):
            shards.setdefault(int(match[1]), path)
    numbers = sorted(shards)
    gap = next((place for place, number in enumerate(numbers) if place != number), None)
    if gap is not None:
        raise ReservoirError(
            f"{folder} has shards up to serial_{numbers[-1]:05d}, but no serial_{gap:05d}: the "
            "stream would jump; generate or download it"
        )
    return [shards[number] for number in numbers]


def read_samples(shard: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """The name and the parts of each sample, in order.

    Neighbouring files that have the same name before the first dot belong together.
    """
    files = _tar_files(shard) if shard.suffix == ".tar" else _folder_files(shard)
    for name, group in groupby(files, key=lambda file: file[0].partition(".")[0]):
        parts = {file.partition(".")[2]: data for file, data in group}
        missing = [part for part in NEEDED if part not in parts]
        if missing:
            raise ReservoirError(f"{shard} has no {name}.{missing[0]}: {MEND}")
        yield name, parts


def tar_fault(path: Path) -> str | None:
    """What is wrong with an archive; None if nothing is. Reads names, not pictures."""
    samples: dict[str, set[str]] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                if member.isfile():
                    sample, _, part = Path(member.name).name.partition(".")
                    samples.setdefault(sample, set()).add(part)
    except tarfile.TarError as error:
        return f"is no whole archive: {error}"
    if not _is_closed(path):
        return "is truncated"
    missing = [f"{name}.{part}" for name in samples for part in NEEDED if part not in samples[name]]
    if missing:
        return f"has no {missing[0]}"
    return None if samples else "holds no samples"


def _is_closed(path: Path) -> bool:
    """Whether an archive has its end; `tarfile` stops without a word where a file breaks off."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - END))
        return file.read() == bytes(END)


def _tar_files(shard: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                if member.isfile():
                    yield Path(member.name).name, archive.extractfile(member).read()
        if not _is_closed(shard):
            raise tarfile.ReadError("it breaks off")
    except (tarfile.TarError, OSError) as error:
        raise ReservoirError(f"{shard} is damaged ({error}): {MEND}") from error


def _folder_files(shard: Path) -> Iterator[tuple[str, bytes]]:
    def by_number(path: Path) -> tuple[int, str]:
        digits = re.findall(r"\d+", path.name.split(".")[0])
        return (int(digits[-1]) if digits else -1, path.name)

    # sample_10 comes after sample_9, not after sample_1.
    for path in sorted(shard.iterdir(), key=by_number):
        if path.is_file() and not path.name.startswith("."):
            yield path.name, path.read_bytes()
