"""A reservoir with exactly K experts, and a stream that keeps coming back to their styles.

Images of noise have but one style. The encoder is run on them, for its cost, and the router gets a
style vector made for the stream in the place of what the encoder said. Everything after it
(routing, certainty, second passes) is real, for styles that scatter and lie apart as those of real
frames do.
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
"""Deviation of a channel within a condition, and between conditions. Guesses: the share of second
passes, which `published` and `stream` need where routes are undecided, depends on them."""
SOURCE_STYLES = 120
VISIT = 20
"""Frames of a visit to each style while the reservoir fills; the first four open a domain."""
_ROUNDS = 3


class Styles:
    """Style vectors of ``k`` conditions, the first of which is the source.

    Args:
        k: Conditions.
        length: Of a vector.
        seed: Of all that is random.
    """

    def __init__(self, k: int, length: int, seed: int = 0) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self.centres = APART * torch.randn(k, length, generator=self._generator)
        self.centres[0] = 0

    def __len__(self) -> int:
        return len(self.centres)

    def draw(self, condition: int, count: int = 1) -> Tensor:
        """Vectors of frames of a condition, ``(count, length)``."""
        noise = torch.randn(count, self.centres.shape[1], generator=self._generator)
        return self.centres[condition] + SCATTER * noise


class StandIn:
    """An encoder whose work is done and whose answer is replaced by that of the stream.

    Args:
        encoder: The real one.
        styles: Of the stream.
        visit: Frames until it goes on to the next condition.
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
        """That of the real one."""
        return self.encoder.fingerprint()


def fill(pipeline: ReservoirPipeline, k: int, visit: int) -> None:
    """Fit the router and let it open domains until there are ``k``, with an expert for each.

    Experts are the source with a little noise, their optimizers have moments: what a step costs
    does not depend on what they learned.

    Args:
        pipeline: Just made, with an encoder that knows its ``groups`` and a router with
            ``k_max = k``.
        k: Experts.
        visit: Frames of a visit of the stream that follows.
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
    pipeline.encoder = StandIn(pipeline.encoder, styles, visit)
