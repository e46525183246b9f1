"""The change by an update, as flags that the host reads in one transfer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from ..params.base import ParamSpace


def read_flags(flags: Mapping[str, Tensor]) -> dict[str, bool]:
    """Return flags of one device in one transfer, since each makes the host wait."""
    return dict(zip(flags, torch.stack([*flags.values()]).tolist(), strict=True))


@dataclass(frozen=True)
class Change:
    """The effect of an update on the values of an expert.

    Args:
        moved: Whether any value changed.
        at_source: Whether the values that adapt are those of the source.
    """

    moved: bool
    at_source: bool

    @staticmethod
    def flags(
        space: ParamSpace, before: Tensor, after: Tensor, source: Tensor
    ) -> dict[str, Tensor]:
        """Return the fields of a change by name, on the device."""
        at_source = (space.adapted(after) == space.adapted(source)).all()
        return {"moved": (after != before).any(), "at_source": at_source}
