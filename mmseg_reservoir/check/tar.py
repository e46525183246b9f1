"""Is a shard of samples whole? Reads the names in it, not the pictures."""

from __future__ import annotations

import tarfile
from pathlib import Path

PARTS = ("input.jpg", "output.cls")
"""What each sample must have; the name before the first dot is the sample's."""
END = 1024
"""Bytes of zeros that close an archive."""


def tar_fault(path: Path) -> str | None:
    """What is wrong with an archive; None if nothing is."""
    samples: dict[str, set[str]] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                if member.isfile():
                    sample, _, part = Path(member.name).name.partition(".")
                    samples.setdefault(sample, set()).add(part)
    except tarfile.TarError as error:
        return f"is no whole archive: {error}"
    if not is_closed(path):
        return "is truncated"
    for sample, parts in samples.items():
        for part in PARTS:
            if part not in parts:
                return f"has no {sample}.{part}"
    return None if samples else "holds no samples"


def is_closed(path: Path) -> bool:
    """Whether an archive has its end; `tarfile` stops without a word where a file breaks off."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(-min(END, size), 2)
        return size >= END and not file.read().strip(b"\0")
