"""Check the variance theory of the ReservoirTTA paper by simulation; takes seconds.

It prints one line per claim and draws theory.png. docs/theory.md explains the results.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks import theory
from benchmarks.theory import simulate
from mmseg_reservoir.report.tables import make_table

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

Row = tuple[str, float, float]
"""Claim, predicted and simulated value."""

# One parameter, for (a), (b) and (c).
ETA, V, STEPS = 0.1, 1.0, 200
ZERO = torch.zeros(1, dtype=torch.float64)
TIME = torch.arange(STEPS + 1)

# Two parameters and three domains around the source model, for (d). As in the paper's figure,
# the source lies in all stability regions, but no domain's optimum lies in another one's region.
ANGLES = torch.arange(3, dtype=torch.float64) * 2 * math.pi / 3
OPTIMA = torch.stack([ANGLES.cos(), ANGLES.sin()], 1)
SOURCE = torch.zeros(2, dtype=torch.float64)
BETA, CURVATURE, ALPHA = 1.4, 2.0, 0.99
VISIT, ROUNDS = 40, 5
DOMAINS = [k for _ in range(ROUNDS) for k in range(3) for _ in range(VISIT)]


def basin(curvature: float, optimum: float = 0.0) -> Callable[[Tensor, int], Tensor]:
    """Return the expected gradient of a quadratic loss, or of a flat one without curvature."""
    return lambda theta, t: curvature * (theta - optimum)


def variance(walks: int, seed: int, curvature: float = 0.0, **options) -> Tensor:
    """Return Var[θ_t] of one parameter over the walks, t = 0 ... STEPS."""
    options = {"eta": ETA, "v": V} | options
    return simulate(basin(curvature), ZERO, STEPS, walks=walks, seed=seed, **options).var(1)[:, 0]


def draw(axis: Axes, predicted: Tensor, simulated: Tensor, label: str, color: str) -> None:
    """Draw the theory as a line and the simulation as dots."""
    axis.plot(TIME, predicted, color=color, label=label)
    axis.plot(TIME[::10], simulated[::10], "o", color=color, ms=4)


def check_sgd(axis: Axes, walks: int, seed: int) -> list[Row]:
    """Check (a): Eq. (1), the effect of curvature, and the sample filter of Eq. (3)."""
    rows = []
    for color, eta, h, source in [
        ("C3", ETA, 0.0, "Eq. (1)"),
        ("C1", ETA / 2, 0.0, "Eq. (1)"),
        ("C0", ETA, 0.1, "ours"),
    ]:
        simulated = variance(walks, seed, h, eta=eta)
        predicted = theory.curved_variance(TIME, eta, V, 1.0, h)
        loss = f"curvature {h}" if h else "flat loss"
        draw(axis, predicted, simulated, f"η = {eta}, {loss} ({source})", color)
        rows.append((f"(a) SGD, η = {eta}, {loss}: {source}", predicted[-1], simulated[-1]))
    axis.set(title="(a) Plain SGD: linear on a flat loss only", xlabel="step t", ylabel="Var[θ]")
    # A filter that keeps half of the samples, whatever their gradient is, of mean 2.
    generator = torch.Generator().manual_seed(seed)
    gradients = 2 + torch.randn(walks, generator=generator, dtype=torch.float64)
    kept = torch.rand(walks, generator=generator) < 0.5
    predicted = theory.filtered_variance(0.5, 1.0, 2.0)
    return [
        *rows,
        ("(a) Var[S g], keep 50 %, E[g] = 2, V = 1: ours", predicted, kept.mul(gradients).var()),
    ]


def check_ensembling(axis: Axes, walks: int, seed: int) -> list[Row]:
    """Check (b): Eq. (4) and (18) for ensembling, and the variance of the Fisher update."""
    rows = []
    for color, alpha in ("C3", 0.99), ("C1", 0.97), ("C0", 0.9):
        simulated = variance(walks, seed, alpha=alpha)
        predicted = theory.ensemble_variance(TIME, ETA, V, alpha)
        draw(axis, predicted, simulated, f"α = {alpha} (Eq. 18)", color)
        axis.axhline(theory.ensemble_bound(ETA, V, alpha), color=color, ls=":", lw=1)
        for t in 10, STEPS:
            rows.append(
                (f"(b) ensembling, α = {alpha}, t = {t}: Eq. (18)", predicted[t], simulated[t])
            )
    bound = theory.ensemble_bound(ETA, V, 0.9)
    rows.append(("(b) ensembling, α = 0.9: bound of Eq. (4)", bound, simulated[-1]))
    correlated = variance(walks, seed, alpha=0.9, rho=0.8)[-1]
    factor = theory.correlation_factor(0.9, 0.8)
    rows.append(("(b) ... noise correlated by 0.8: bound of Eq. (4)", bound, correlated))
    rows.append((f"(b) ... bound times {factor:.2f}: ours", bound * factor, correlated))
    simulated = variance(walks, seed, alpha=0.9, step=theory.fisher_step)
    predicted = theory.fisher_variance(TIME, ETA, V, 0.9)
    draw(axis, predicted, simulated, "Fisher, α = 0.9 (Eq. 18 / α²)", "C4")
    rows.append(("(c) Fisher, α = 0.9: bound of Eq. (4)", bound, simulated[-1]))
    rows.append(("(c) Fisher, α = 0.9: bound / α², ours", predicted[-1], simulated[-1]))
    axis.plot([], [], "k:", lw=1, label="bounds (Eq. 4)")
    axis.set(title="(b) Tied to the source: bounded", xlabel="step t", ylabel="Var[θ]")
    axis.set(yscale="log", ylim=(0.006, 1.2))
    return rows


def check_fisher(axis: Axes) -> list[Row]:
    """Check (c): the gap between Eq. (20) and Eq. (21), without noise, 2 λ ω = 1, first g = 1."""
    etas = torch.tensor([0.2, 0.1, 0.05, 0.025, 0.0125], dtype=torch.float64)
    gaps = []
    for eta in etas.tolist():
        options = dict(walks=1, eta=eta, v=0.0, alpha=theory.fisher_alpha(0.5, 1.0, eta))
        ends = [
            simulate(basin(1.0, -1.0), ZERO, round(4 / eta), step=step, **options)[[1, -1], 0, 0]
            for step in (theory.ensemble_step, theory.fisher_step)
        ]
        gaps.append(ends[0] - ends[1])
    one, many = torch.stack(gaps, 1)
    for color, gap, order, label in [
        ("C3", many, 1, "after 4 / η steps, line ∝ η"),
        ("C0", one, 2, "after one step, line ∝ η²"),
    ]:
        axis.loglog(etas, gap[-1] * (etas / etas[-1]) ** order, color=color, label=label)
        axis.loglog(etas, gap, "o", color=color, ms=5)
    axis.set(title="(c) Fisher is not quite ensembling", ylabel="gap in θ")
    axis.set(xlabel="learning rate η", xticks=etas, xticklabels=[f"{eta:g}" for eta in etas])
    axis.minorticks_off()
    return [
        ("(c) gap of one step, η = 0.1: 2 λ ω η² g, ours", 0.1**2, one[1]),
        ("(c) order in η of the gap of one step", 2.0, (one[-2] / one[-1]).log2()),
        ("(c) order in η of the gap after 4 / η steps", 1.0, (many[-2] / many[-1]).log2()),
    ]


def stream(experts: bool, collapse: bool, walks: int, seed: int = 0, **options) -> Tensor:
    """Return the error θ - θ* of the model at each batch of the stream (t x walks x 2).

    With `collapse`, the gradient outside of the stability region is only noise.
    """

    def pull(theta: Tensor, t: int) -> Tensor:
        error = theta - OPTIMA[DOMAINS[t]]
        stable = error.norm(dim=1, keepdim=True) <= BETA
        return CURVATURE * error * (stable if collapse else 1)

    options = {"eta": ETA / 2, "v": V, "alpha": ALPHA, "walks": walks, "seed": seed} | options
    path = simulate(pull, SOURCE, len(DOMAINS), route=DOMAINS if experts else None, **options)
    return path[:-1] - OPTIMA[DOMAINS, None]


def check_reservoir(axis: Axes, walks: int, seed: int) -> list[Row]:
    """Check (d): one model and a reservoir of three on D1 → D2 → D3 → D1, and Theorem 1."""
    eta, entry = ETA / 2, -3 * VISIT  # entry: the first batch of D1's last visit
    rest = theory.resting_point(SOURCE, OPTIMA, eta, ALPHA, CURVATURE)
    forget = (ALPHA * (1 - eta * CURVATURE)) ** VISIT
    single = theory.single_entry(rest, forget)
    expert = theory.expert_entry(rest, SOURCE, forget, ROUNDS)
    t = torch.arange(len(DOMAINS))
    own = t // (3 * VISIT) * VISIT + t % VISIT  # an expert is updated in one visit of three
    rows, shares = [], []
    for color, name, experts, mean, updates in [
        ("C1", "one model", False, single, t),
        ("C0", "reservoir", True, expert, own),
    ]:
        error = stream(experts, False, walks, seed)
        claim = f"(d) {name}, |E[θ] - θ*| on entering D1: ours"
        rows.append((claim, (mean - OPTIMA)[0].norm(), error[entry].mean(0).norm()))
        # All is linear, so a walk without noise is the mean of the others.
        bias = stream(experts, False, 1, v=0.0)[:, 0].square().sum(1)
        spread = 2 * theory.curved_variance(updates, eta, V, ALPHA, CURVATURE)
        axis.plot(t, (bias + spread).sqrt(), color=color, label=f"{name}, no collapse")
        axis.plot(t[::5], error.square().sum(2).mean(1).sqrt()[::5], "o", color=color, ms=2.5)
        distance = stream(experts, True, walks, seed).norm(dim=2)
        shares.append((distance[entry:] > BETA).double().mean())
        if not experts:
            label = "one model, noise only outside β"
            axis.plot(t, distance.square().mean(1).sqrt(), color="0.45", lw=1, ls="--", label=label)
    distance = stream(False, True, walks, seed, alpha=1.0).norm(dim=2)
    outside = (distance[entry:] > BETA).double().mean()
    rows.append(("(d) one model, plain SGD, share outside β", math.nan, outside))
    rows.append(("(d) one model, α = 0.99, share outside β", math.nan, shares[0]))
    bound = theory.divergence_bound(spread[-1], BETA, 1.0)
    rows.append(("(d) reservoir, α = 0.99, same: at most, Eq. (2)", bound, shares[1]))
    axis.axhline(BETA, color="k", ls=":", lw=1, label="stability radius β")
    for start in range(0, len(DOMAINS), 3 * VISIT):
        axis.axvspan(start, start + VISIT, color="0.92", lw=0)
    axis.set(title="(d) Three recurring domains (grey: D1)", ylim=(0, 2.5))
    axis.set(xlabel="step t", ylabel="root mean square of |θ - θ*|")
    return rows


def table(rows: list[Row]) -> str:
    """Return the claims and the simulated values."""
    cells = []
    for claim, predicted, simulated in rows:
        numbers = ["-", f"{simulated:.4g}", "-"]
        if not math.isnan(predicted):
            numbers[::2] = f"{predicted:.4g}", f"{simulated / predicted - 1:+.2%}"
        cells.append([claim, *numbers])
    return make_table(["claim", "predicted", "simulated", "relative difference"], cells)


def main(argv: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--walks", type=int, default=20000, help="(d) uses a tenth of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, default=Path("work_dirs/theory"), help="folder of the plot"
    )
    args = parser.parse_args(argv)
    figure, axes = plt.subplots(2, 2, figsize=(9.6, 6.9), layout="constrained")
    figure.suptitle("Lines: theory. Dots: simulation.")
    rows = check_sgd(axes[0, 0], args.walks, args.seed)
    rows += check_ensembling(axes[0, 1], args.walks, args.seed)
    rows += check_fisher(axes[1, 0])
    rows += check_reservoir(axes[1, 1], max(2, args.walks // 10), args.seed)
    print(table(rows))
    error = (2 / (args.walks - 1)) ** 0.5
    print(f"{args.walks} walks: the standard error of a simulated variance is {error:.2%}")
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, ncols=2 if axis in axes[:, 1] else 1)
    args.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(args.out / "theory.png", dpi=90)
    plt.close(figure)
    print(f"Plot: {args.out / 'theory.png'}")


if __name__ == "__main__":
    main()
