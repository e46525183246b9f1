"""CCC (Press et al., NeurIPS 2023): runs of shards; how many is what its generator writes."""

from __future__ import annotations

from pathlib import Path

from mmseg_reservoir.known_datasets import CCC_IMAGES, CCC_RUN, CCC_SHARD_IMAGES

from ..layout import Cell, Layout


def shards_of(speed: int) -> tuple[int, int]:
    """Shards of a run, and images of a shard; both are filled up with whole steps."""
    images = -(-CCC_SHARD_IMAGES // speed) * speed
    return -(-CCC_IMAGES // images), images


def _cells(root: Path) -> list[Cell]:
    """One for each run that is there: nobody needs all 27."""
    cells = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        match = CCC_RUN.fullmatch(folder.name)
        if match is None:
            continue
        baseline, speed, seed = map(int, match.groups())
        shards, images = shards_of(speed)
        packed = any(folder.glob("*.tar"))
        cells.append(
            Cell(
                f"baseline{baseline}",
                f"speed{speed}_seed{seed}",
                images=folder.name,
                expected=shards if packed else shards * images,
            )
        )
    return cells


CCC = Layout(
    title="CCC",
    cells=_cells,
    marks=("baseline_*_seed_*",),
    image_suffix=(".tar", ".input.jpg"),
    download=(
        "generate it with github.com/oripress/CCC, so that {root} holds "
        "baseline_B_transition+speed_S_seed_N/serial_00000.tar, ..."
    ),
)
