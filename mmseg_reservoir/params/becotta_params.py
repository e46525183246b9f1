"""``params.type = "becotta"``: from the options of a config to what BECoTTA adapts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from ..becotta.inject import inject, select_becotta
from ..becotta.store import load
from ..becotta.variants import DOMAINS
from ..registry import register


@register("params", "becotta")
def becotta_params(
    model: nn.Module,
    variant: str | Mapping[str, Any] | None = None,
    weights: str | Path | None = None,
    under: str = "backbone",
    blend: bool = False,
    seed: int = 0,
) -> dict[str, nn.Parameter]:
    """Inject BECoTTA into a loaded model and select what adapts: ``params.type = "becotta"``.

    Args:
        model: A SegFormer of mmseg.
        variant: As in :func:`inject`; by default that of the file, or S where there is none.
        weights: What ``reservoir warmup`` wrote. None: no warm-up; the mixtures start as the
            identity and all images go to the same gate, which makes it a plain adapter method.
        under: Name of the model's backbone.
        blend: See :class:`BecottaParts`.
        seed: Of the initial values, where there is no file.
    """
    if weights is None:
        # Without a trained discriminator there is only one domain to tell apart.
        inject(model, variant or "S", DOMAINS[:1], under, blend, seed)
    else:
        load(weights, model, variant, under, blend)
    return select_becotta(model)
