"""Routing of streams that come one frame at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import ReservoirError
from .domains import Domains
from .evidence import StickyFilter, Window
from .router import Route, Router
from .style_space import StyleSpace

_SOURCE_WINDOWS = 4000


class StreamRouter(Router):
    """Routes single frames by what the last few say together (docs/routing.md).

    Every frame goes to the domain that is most probable given all frames so far. A full window of
    frames of one domain is then tested as a whole: if no domain explains its mean, it founds a new
    one; if its own domain explains it well, the domain learns from it; in between neither.

    Args:
        space: Fitted on the source.
        k_max: The largest number of domains.
        window: Frames that are tested together.
        confidence: A window is new if a domain that has been found would give such a misfit with
            less than this probability (quantile of the F distribution).
        margin: A window is not of the source if its misfit is this many times the largest one of
            windows of source frames.
        learn_below: A domain learns from windows with a smaller misfit; 1 is what chance explains.
        switch: Probability that the domain changes from one frame to the next.
        dimensions: Independent directions in which the styles of a domain scatter.
    """

    def __init__(
        self,
        space: StyleSpace,
        k_max: int = 16,
        window: int = 5,
        confidence: float = 0.95,
        margin: float = 1.2,
        learn_below: float = 1.0,
        switch: float = 0.1,
        dimensions: float = 12.0,
    ) -> None:
        super().__init__(k_max)
        if not 0 < confidence < 1 or not dimensions > 0:
            raise ReservoirError(
                f"confidence must lie in (0, 1) and dimensions above 0, got {confidence} and "
                f"{dimensions}"
            )
        self.space = space
        self.confidence = confidence
        self.margin = margin
        self.learn_below = learn_below
        self.filter = StickyFilter(switch)
        self.window = Window(window)
        self.domains = Domains(space.held_out, dimensions, prior=window)
        self.tau = self._calibrate(space.held_out)

    def _calibrate(self, source: Tensor) -> float:
        """``margin`` times the largest misfit of a window of source frames.

        Drawn with replacement and a fixed seed: frames of a stream may resemble each other more
        than the frames of the calibration do.
        """
        generator = torch.Generator().manual_seed(0)
        shape = (_SOURCE_WINDOWS, self.window.length)
        draws = torch.randint(len(source), shape, generator=generator)
        return self.margin * max(float(self.domains.misfit(source[d])[0]) for d in draws)

    @property
    def k(self) -> int:
        """K, the number of domains."""
        return len(self.domains)

    def route(self, style: Tensor, *, may_open: bool = True, domain: str | None = None) -> Route:
        """Route one style vector and learn from it."""
        if not torch.isfinite(style).all():
            raise ReservoirError(
                "the style vector is not finite: the image holds NaN or infinite values"
            )
        style = self.space(style)
        weights = self.filter.update(self.domains.log_likelihoods(style))
        index = int(weights.argmax())
        self.window.push(style, index)
        is_new = False
        if self.window.full:
            misfit = self.domains.misfit(self.window.frames)
            is_new = may_open and self.k < self.k_max and self._is_new(misfit)
            if is_new:
                self.domains.open(self.window.frames)
                weights, index = self.filter.open(), self.k - 1
                self.window.clear(index)
            elif misfit[index] < self.learn_below:
                self.domains.learn(index, self.window.take_fresh())
        return Route(index, weights, is_new)

    def _is_new(self, misfit: Tensor) -> bool:
        """Whether no domain explains the window, nor would without any one of its frames."""
        thresholds = self.thresholds()
        if not (misfit > thresholds).all():
            return False
        frames = self.window.frames
        rest = [frames[keep] for keep in ~torch.eye(len(frames), dtype=torch.bool)]
        if not all(bool((self.domains.misfit(r) > thresholds).all()) for r in rest):
            return False
        # Frames from before and after a change resemble no domain in the mean: all but one must be
        # nearer to the others of the window than to any domain.
        others = torch.stack([r.mean(dim=0) for r in rest])
        among = (frames - others).square().sum(dim=1)
        known = torch.cdist(frames, self.domains.means).square().min(dim=1).values
        return int((among < known).sum()) >= len(frames) - 1

    def thresholds(self) -> Tensor:
        """The misfit beyond which a window is not of a domain, ``(K,)``."""
        from scipy.stats import f

        n = self.domains.dimensions
        windows = (self.domains.counts / self.window.length).clamp_min(1).double().numpy()
        # A domain that has explained many windows was tested as often: share the risk among them.
        risk = (1 - self.confidence) / windows
        found = f.isf(risk, n, n * self.domains.freedom.double().numpy())
        found[0] = self.tau
        return torch.from_numpy(found)

    def state_dict(self) -> dict[str, Any]:
        """Space, domains, and the evidence so far."""
        return {
            "space": self.space.state_dict(),
            "domains": self.domains.state_dict(),
            "posterior": self.filter.posterior.clone(),
            "window": self.window.state_dict(),
            "tau": self.tau,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`; what was calibrated comes from it, too."""
        k = len(state["posterior"])
        if k > self.k_max:
            raise ReservoirError(f"the saved router has {k} domains, K_max is {self.k_max}")
        self.space.load_state_dict(state["space"])
        self.domains.load_state_dict(state["domains"])
        self.filter.posterior = state["posterior"].clone()
        self.window.load_state_dict(state["window"])
        self.tau = state["tau"]
