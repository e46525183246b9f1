"""A reservoir with exactly K experts, and a stream with their recurring styles.

Images of noise have only one style. So the encoder runs for its cost, and the router gets a style
vector of the stream instead of the encoder's output. Everything after that (routing, certainty,
second passes) is real, with styles that scatter and differ like those of real frames.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from mmseg_reservoir.core.reservoir_pipeline import ReservoirPipeline
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.style import Calibration

SCATTER, APART = 0.3, 0.6
"""Deviations of a channel within a condition and between conditions. They are guesses. The share of
second passes, which `published` and `stream` run for undecided routes, depends on them."""
SOURCE_STYLES = 120
VISIT = 20
"""Frames per visit while the reservoir fills; the first four open a domain."""
_ROUNDS = 3


class Styles:
    """Style vectors of ``k`` conditions; the first condition is the source.

    Args:
        k: Number of conditions.
        length: Length of a vector.
        seed: Random seed. Defaults to 0.
    """

    def __init__(self, k: int, length: int, seed: int = 0) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self.centers = APART * torch.randn(k, length, generator=self._generator)
        self.centers[0] = 0

    def __len__(self) -> int:
        return len(self.centers)

    def draw(self, condition: int, count: int = 1) -> Tensor:
        """Return vectors ``(count, length)`` of a condition's frames."""
        noise = torch.randn(count, self.centers.shape[1], generator=self._generator)
        return self.centers[condition] + SCATTER * noise


class RecurringStyles:
    """An encoder that runs, and returns the style of the stream instead of its output.

    Args:
        encoder: Real encoder.
        styles: Styles of the stream.
        visit: Frames of a condition per visit.
    """

    def __init__(self, encoder: Callable[[Tensor], Tensor], styles: Styles, visit: int) -> None:
        self.encoder = encoder
        self.groups = encoder.groups
        self.styles = styles
        self.visit = visit
        self._frame = 0

    def __call__(self, inputs: Tensor) -> Tensor:
        self.encoder(inputs)
        condition = (self._frame // self.visit + 1) % len(self.styles)
        self._frame += 1
        return self.styles.draw(condition)[0]

    def fingerprint(self) -> dict[str, Any]:
        return self.encoder.fingerprint()


def fill(pipeline: ReservoirPipeline, k: int, visit: int) -> None:
    """Fit the router and let it open ``k`` domains, with an expert each.

    Experts are the source with a little noise, and their optimizers have moments, since the cost
    of a step does not depend on what they have learned.

    Args:
        pipeline: New pipeline. Its encoder has ``groups``, its router ``k_max = k``.
        k: Number of experts.
        visit: Frames per visit of the following stream.
    """
    router, method = pipeline.router, pipeline.method
    styles = Styles(k, sum(pipeline.encoder.groups))
    source = styles.draw(0, SOURCE_STYLES)
    router.fit(Calibration(source, groups=pipeline.encoder.groups))
    for condition in [c for _ in range(_ROUNDS) for c in range(1, k)]:
        if router.k == k:
            break
        for style in styles.draw(condition, VISIT):
            if router.route(style, may_open=True, domain=None).is_new:
                noise = 1e-3 * torch.randn_like(pipeline.source)
                pipeline.reservoir.add(pipeline.source + noise, method.fresh_domain_state())
                if pipeline.alignment is not None:
                    pipeline.alignment.add(parent=0)
    if len(pipeline.reservoir) != k:
        raise ReservoirError(f"{k} styles opened {len(pipeline.reservoir)} domains: raise APART")
    for index in range(k):
        method.load(*pipeline.reservoir.checkout(index))
        method.space.zero_grad()
        method.optimizer.step()
        pipeline.reservoir.commit(index, method.space.values.detach(), method.domain_state())
    pipeline.encoder = RecurringStyles(pipeline.encoder, styles, visit)
