"""The variance theory of ReservoirTTA (Vray et al., 2025): formulas, and walks to check them.

Equation numbers are those of the paper: (1) to (6) are in its Section 3.2, (15) to (26) in the
appendix. A formula marked "ours" is not in the paper; it shows when the paper's formula holds.

Symbols: η learning rate, V variance of one gradient, α weight of the adapted parameters, θ0 source
parameters, h curvature of the loss (its gradient is h (θ - θ*), plus noise).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor, Tensor, float, float], Tensor]


def geometric_sum(ratio: float, terms: Tensor | float) -> Tensor | float:
    """Return the sum 1 + ratio + ratio² + ...; a ratio of 1 is the limit of Prop. 3."""
    return terms if ratio == 1 else (1 - ratio**terms) / (1 - ratio)


def sgd_variance(t: Tensor | float, eta: float, v: float) -> Tensor | float:
    """Return Var[θ_t] of plain SGD: t η² V. Lemma 1, Eq. (1) `eq:variance_main`."""
    return eta**2 * v * t


def filtered_variance(kept: float, v: float, mean: float) -> float:
    """Return the variance of S(x) g(x), Eq. (3), by kept share and mean of g (ours)."""
    return kept * v + kept * (1 - kept) * mean**2


def ensemble_variance(t: Tensor | float, eta: float, v: float, alpha: float) -> Tensor | float:
    """Return Var[θ_t] of weight ensembling: Eq. (4) and (18) `eq:appendix_ensemble_var`."""
    return eta**2 * v * alpha**2 * geometric_sum(alpha**2, t)


def ensemble_bound(eta: float, v: float, alpha: float) -> float:
    """Return the limit of Eq. (18): the bound of Eq. (4), right."""
    return eta**2 * v * alpha**2 / (1 - alpha**2)


def fisher_variance(t: Tensor | float, eta: float, v: float, alpha: float) -> Tensor | float:
    """Return Var[θ_t] of the Fisher update, Eq. (20): Eq. (18) without the factor α² (ours)."""
    return eta**2 * v * geometric_sum(alpha**2, t)


def curved_variance(
    t: Tensor | float, eta: float, v: float, alpha: float, curvature: float
) -> Tensor | float:
    """Return Eq. (1) (α = 1) or Eq. (18) for a gradient that depends on θ (ours)."""
    return eta**2 * v * alpha**2 * geometric_sum((alpha * (1 - eta * curvature)) ** 2, t)


def correlation_factor(alpha: float, rho: float) -> float:
    """Return the factor on the bound of Eq. (4) for a noise correlation rho^k (ours)."""
    return (1 + alpha * rho) / (1 - alpha * rho)


def divergence_bound(variance: Tensor | float, beta: float, distance: float) -> Tensor | float:
    """Return the bound of Theorem 1, Eq. (2), on Pr[|θ_t - θ*| > β]; distance = |θ0 - θ*| < β."""
    return variance / (beta - distance) ** 2


def fisher_alpha(lam: float, omega: float, eta: float) -> float:
    """Return the α of Proposition 4 for a Fisher penalty λ ω (θ - θ0)²."""
    return 1 - 2 * lam * omega * eta


def ensemble_step(
    theta: Tensor, gradient: Tensor, theta0: Tensor, eta: float, alpha: float
) -> Tensor:
    """Take one step of weight ensembling: Eq. (5) `eq:ensemble_main`, again (15), (16) and (21)."""
    return alpha * (theta - eta * gradient) + (1 - alpha) * theta0


def fisher_step(
    theta: Tensor, gradient: Tensor, theta0: Tensor, eta: float, alpha: float
) -> Tensor:
    """Take one SGD step on the loss of Eq. (6) and (19), where 2 λ ω = (1 - α) / η: Eq. (20)."""
    return theta - eta * (gradient + (1 - alpha) / eta * (theta - theta0))


def closed_form(theta0: Tensor, gradients: Tensor, eta: float, alpha: float) -> Tensor:
    """Return θ_t of weight ensembling from all gradients: Eq. (17) `eq:recursive_appendix`."""
    weights = alpha ** torch.arange(len(gradients), 0, -1, dtype=gradients.dtype)
    return theta0 - eta * torch.tensordot(weights, gradients, dims=1)


def resting_point(
    theta0: Tensor, optimum: Tensor, eta: float, alpha: float, curvature: float
) -> Tensor:
    """Return the limit of E[θ_t] of weight ensembling, between θ* and θ0 (ours, Remark 1)."""
    bias = (1 - alpha) / (1 - alpha * (1 - eta * curvature))
    return optimum + bias * (theta0 - optimum)


def single_entry(rests: Tensor, forget: float) -> Tensor:
    """Return E[θ] of one model on entering each domain, after many rounds D1 → ... → DK (ours).

    `rests` has each domain's resting point (K x d). `forget` is the factor on the past after the T
    steps of a visit: (α (1 - η h))^T.
    """
    past = sum(forget**j * rests.roll(j + 1, 0) for j in range(len(rests)))
    return (1 - forget) / (1 - forget ** len(rests)) * past


def expert_entry(rests: Tensor, theta0: Tensor, forget: float, visit: int) -> Tensor:
    """Return E[θ] of each domain's expert on entering it for the visit-th time (ours)."""
    return rests + forget ** (visit - 1) * (theta0 - rests)


def simulate(
    pull: Callable[[Tensor, int], Tensor],
    theta0: Tensor,
    steps: int,
    *,
    walks: int,
    eta: float,
    v: float,
    alpha: float = 1.0,
    step: Step = ensemble_step,
    rho: float = 0.0,
    route: Sequence[int] | None = None,
    seed: int = 0,
) -> Tensor:
    """Simulate independent walks; gradients are `pull(θ, t)` plus Gaussian noise.

    Args:
        pull: Expected gradient at θ (walks x d) in step t.
        theta0: Source parameters (d); every model starts there.
        steps: Number of steps.
        walks: Number of walks.
        eta: Learning rate η.
        v: Variance V of each coordinate of the noise.
        alpha: Weight α of the adapted parameters; 1 is plain SGD.
        step: Update rule.
        rho: Correlation of the noise of two successive steps.
        route: Model of each step. Defaults to one model for all steps.
        seed: Seed of the noise, which does not depend on the update rule.

    Returns:
        The model before step t, and as last row the result of the last step
        ((steps + 1) x walks x d).
    """
    generator = torch.Generator().manual_seed(seed)
    route = [0] * steps if route is None else route
    models = [theta0.expand(walks, -1)] * (max(route) + 1)
    fresh = torch.randn(steps, walks, len(theta0), generator=generator, dtype=theta0.dtype)
    noise, path = fresh[0], []
    for t, k in enumerate(route):
        path.append(models[k])
        if t:  # the first noise has the stationary distribution
            noise = rho * noise + (1 - rho**2) ** 0.5 * fresh[t]
        gradient = pull(models[k], t) + v**0.5 * noise
        models[k] = step(models[k], gradient, theta0, eta, alpha)
    return torch.stack([*path, models[route[-1]]])
