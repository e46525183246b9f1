"""Streams of recorded styles with several orders of conditions and frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

FADE = 6
"""Frames of a slow fade between two conditions."""


class Frame(NamedTuple):
    """One frame of a stream: its style, condition and visit (round)."""

    style: Tensor
    condition: str
    visit: int


def visits(styles: Mapping[str, Tensor], rounds: int, generator: torch.Generator) -> list[Frame]:
    """Return the conditions one after the other, with the frames of each visit in random order."""
    return [
        Frame(frames[i], condition, visit)
        for visit in range(rounds)
        for condition, frames in styles.items()
        for i in torch.randperm(len(frames), generator=generator)
    ]


def backwards(styles: Mapping[str, Tensor], rounds: int, generator: torch.Generator) -> list[Frame]:
    """Return the conditions in reversed order."""
    return visits(dict(reversed(styles.items())), rounds, generator)


def mixed(styles: Mapping[str, Tensor], rounds: int, generator: torch.Generator) -> list[Frame]:
    """Return all frames of a round in a random order (CDC)."""
    stream = []
    for visit in range(rounds):
        frames = [frame._replace(visit=visit) for frame in visits(styles, 1, generator)]
        stream += [frames[i] for i in torch.randperm(len(frames), generator=generator)]
    return stream


def fades(styles: Mapping[str, Tensor], rounds: int, generator: torch.Generator) -> list[Frame]:
    """Return :func:`visits` with blended frames between two conditions."""
    stream: list[Frame] = []
    for frame in visits(styles, rounds, generator):
        if stream and stream[-1].condition != frame.condition:
            last = stream[-1]
            for i in range(1, FADE + 1):
                share = i / (FADE + 1)
                near = last if share < 0.5 else frame
                stream.append(near._replace(style=torch.lerp(last.style, frame.style, share)))
        stream.append(frame)
    return stream


ORDERS: dict[str, Callable[[Mapping[str, Tensor], int, torch.Generator], list[Frame]]] = {
    "given": visits,
    "reversed": backwards,
    "mixed": mixed,
    "fades": fades,
}
