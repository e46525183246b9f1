"""The paper's variance claims against walks; equation numbers are the paper's.

A simulated variance of n Gaussian walks has a relative standard error of sqrt(2 / (n - 1)), and a
simulated mean one of sqrt(variance / n). The tests allow four of them.
"""

import math

import pytest
import torch

from benchmarks import check_theory, theory
from benchmarks.theory import simulate

WALKS = 4000
TOLERANCE = 4 * math.sqrt(2 / (WALKS - 1))
ETA, V = 0.1, 2.0
ZERO = torch.zeros(1, dtype=torch.float64)


def flat(theta, t):
    return torch.zeros_like(theta)


def slope(theta, t):
    return torch.ones_like(theta)


def basin(curvature, optimum=0.0):
    return lambda theta, t: curvature * (theta - optimum)


def walk(pull=flat, steps=100, theta0=ZERO, **options):
    options = {"walks": WALKS, "eta": ETA, "v": V} | options
    return simulate(pull, theta0, steps, **options)


def agrees(simulated, predicted) -> bool:
    return abs(float(simulated) / float(predicted) - 1) < TOLERANCE


# (a) Lemma 1


@pytest.mark.parametrize("pull", [flat, slope])
def test_variance_of_sgd_grows_linearly_eq_1(pull):
    variance = walk(pull).var(1)[:, 0]
    for t in 1, 10, 100:
        assert agrees(variance[t], theory.sgd_variance(t, ETA, V))
        assert not agrees(variance[t], theory.sgd_variance(t, ETA, V) / ETA)  # η, not η²
    assert not agrees(variance[100] / variance[10], 10**1.5)


def test_variance_of_sgd_in_a_basin_stays_bounded():
    h = 1.0
    variance = walk(basin(h)).var(1)[:, 0]
    for t in 1, 10, 100:
        assert agrees(variance[t], theory.curved_variance(t, ETA, V, 1.0, h))
    assert agrees(variance[100], ETA * V / (h * (2 - ETA * h)))
    assert variance[100] < theory.sgd_variance(100, ETA, V) / 10


@pytest.mark.parametrize(("mean", "helps"), [(0.0, True), (1.0, True), (2.0, False)])
def test_sample_filter_may_raise_the_variance_of_the_gradient_eq_3(mean, helps):
    generator = torch.Generator().manual_seed(0)
    n = 100_000
    gradients = mean + torch.randn(n, generator=generator)
    filtered = gradients * (torch.rand(n, generator=generator) < 0.5)
    predicted = theory.filtered_variance(0.5, 1.0, mean)
    kurtosis = (filtered - filtered.mean()).pow(4).mean() / filtered.var() ** 2  # not Gaussian
    assert abs(filtered.var() / predicted - 1) < 4 * math.sqrt((kurtosis - 1) / n)
    assert (predicted < 1) == helps


# (b) Propositions 2 and 3


@pytest.mark.parametrize("alpha", [0.5, 0.9, 0.99])
def test_variance_of_ensembling_eq_18(alpha):
    variance = walk(slope, alpha=alpha).var(1)[:, 0]
    for t in 1, 3, 100:
        assert agrees(variance[t], theory.ensemble_variance(t, ETA, V, alpha))
        assert theory.ensemble_variance(t, ETA, V, alpha) <= theory.ensemble_bound(ETA, V, alpha)


def test_wrong_exponents_of_eq_18_are_rejected():
    alpha, t = 0.8, 3
    variance = walk(alpha=alpha, steps=t).var(1)[-1, 0]
    for power, decay in (1, 2), (0, 2), (2, 1), (2, 4):
        wrong = ETA**2 * V * alpha**power * (1 - alpha ** (decay * t)) / (1 - alpha**2)
        assert not agrees(variance, wrong)


def test_bound_of_eq_4_is_the_stationary_variance():
    variance = walk(alpha=0.9).var(1)[-1, 0]
    assert agrees(variance, theory.ensemble_bound(ETA, V, 0.9))
    step = ETA**2 * V
    bound = theory.ensemble_bound(ETA, V, 0.9)
    assert 0.9**2 * (bound + step) == pytest.approx(bound)  # one step more leaves it as it is


def test_eq_18_becomes_eq_1_as_alpha_becomes_1():
    sgd = theory.sgd_variance(50, ETA, V)
    assert theory.ensemble_variance(50, ETA, V, 1.0) == pytest.approx(sgd)
    assert theory.ensemble_variance(50, ETA, V, 1 - 1e-9) == pytest.approx(sgd, rel=1e-6)


@pytest.mark.parametrize("h", [1.0, -0.5])
def test_curvature_moves_the_variance_below_or_above_the_bound(h):
    variance = walk(basin(h), alpha=0.9).var(1)[-1, 0]
    assert agrees(variance, theory.curved_variance(100, ETA, V, 0.9, h))
    bound = theory.ensemble_bound(ETA, V, 0.9)
    assert not agrees(variance, bound)
    assert (variance < bound) == (h > 0)


def test_correlated_gradients_break_the_bound():
    variance = walk(alpha=0.9, rho=0.8).var(1)[-1, 0]
    bound = theory.ensemble_bound(ETA, V, 0.9)
    assert variance > 5 * bound
    assert agrees(variance, bound * theory.correlation_factor(0.9, 0.8))


# (c) Proposition 4


def test_fisher_step_is_sgd_on_the_loss_of_eq_19():
    lam, omega, target, start = 3.0, 0.5, 2.0, 0.7
    theta0 = torch.tensor([0.2], dtype=torch.float64)
    theta = torch.tensor([start], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([theta], lr=ETA)
    loss = (theta - target) ** 4 + lam * omega * (theta - theta0) ** 2
    loss.sum().backward()
    optimizer.step()
    gradient = torch.tensor([4 * (start - target) ** 3], dtype=torch.float64)
    alpha = theory.fisher_alpha(lam, omega, ETA)
    before = torch.tensor([start], dtype=torch.float64)
    fisher = theory.fisher_step(before, gradient, theta0, ETA, alpha)
    torch.testing.assert_close(theta.detach(), fisher)
    # Eq. (20) as the paper writes it.
    torch.testing.assert_close(fisher, alpha * before - ETA * gradient + (1 - alpha) * theta0)
    # Eq. (21) is not the same: the gradient is damped too.
    ensemble = theory.ensemble_step(before, gradient, theta0, ETA, alpha)
    torch.testing.assert_close(ensemble - fisher, 2 * lam * omega * ETA**2 * gradient)
    assert (ensemble - fisher).abs() > 0.1


def test_fisher_is_ensembling_with_a_learning_rate_larger_by_1_over_alpha():
    def pull(theta, t):
        return torch.sin(3 * theta) + 0.5

    fisher = walk(pull, walks=5, alpha=0.8, step=theory.fisher_step)
    torch.testing.assert_close(fisher, walk(pull, walks=5, alpha=0.8, eta=ETA / 0.8))
    assert (fisher - walk(pull, walks=5, alpha=0.8)).abs().max() > 0.05


def test_fisher_exceeds_the_bound_of_eq_4():
    variance = walk(alpha=0.8, step=theory.fisher_step).var(1)[:, 0]
    for t in 1, 3, 100:
        assert agrees(variance[t], theory.fisher_variance(t, ETA, V, 0.8))
    bound = theory.ensemble_bound(ETA, V, 0.8)
    assert variance[100] > (1 + TOLERANCE) * bound
    assert agrees(variance[100], bound / 0.8**2)


def test_gap_of_fisher_and_ensembling_is_of_order_2_in_a_step_and_1_in_the_end():
    def gap(eta, steps):
        options = dict(walks=1, v=0.0, eta=eta, alpha=theory.fisher_alpha(0.5, 1.0, eta))
        ensemble = walk(basin(1.0, -1.0), steps, **options)
        return (ensemble - walk(basin(1.0, -1.0), steps, step=theory.fisher_step, **options))[-1]

    assert gap(0.01, 1) / gap(0.005, 1) == pytest.approx(4)
    assert gap(0.01, 500) / gap(0.005, 1000) == pytest.approx(2, rel=0.01)


# (d) Theorems 1 and 2, and the comparison of one model with a reservoir


def test_recursion_eq_17_holds_exactly_for_any_gradients():
    theta0 = torch.tensor([0.3, -1.0], dtype=torch.float64)
    met = []

    def pull(theta, t):
        met.append(torch.sin(3 * theta) + t % 5)
        return met[-1]

    options = dict(theta0=theta0, steps=60, walks=7, v=0.0, alpha=0.9)
    end = walk(pull, **options)[-1]
    torch.testing.assert_close(end, theory.closed_form(theta0, torch.stack(met), ETA, 0.9))
    # One power of α less, α^(t-i-1), is the closed form of the Fisher update instead.
    met.clear()
    end = walk(pull, step=theory.fisher_step, **options)[-1]
    closed = theory.closed_form(theta0, torch.stack(met), ETA, 0.9)
    assert (end - closed).abs().max() > 0.1
    torch.testing.assert_close(end - theta0, (closed - theta0) / 0.9)


def test_ensembling_rests_between_source_and_optimum():
    optimum, h, alpha = torch.full((1,), 5.0, dtype=torch.float64), 0.1, 0.99
    path = walk(basin(h, optimum), steps=600, alpha=alpha)[-1, :, 0]
    rest = theory.resting_point(ZERO, optimum, ETA, alpha, h)
    assert abs(path.mean() - rest) < 4 * path.std() / WALKS**0.5
    assert rest == pytest.approx(2.5, rel=0.01)  # half of the way is never made


@pytest.mark.parametrize("v", [2.0, 20.0])
def test_probability_of_divergence_stays_below_eq_2(v):
    h, optimum, beta = 1.0, 1.0, 2.0
    path = walk(basin(h, optimum), v=v)[:, :, 0]
    share = ((path - optimum).abs() > beta).double().mean(1)
    t = torch.arange(len(path))
    bound = theory.divergence_bound(theory.curved_variance(t, ETA, v, 1.0, h), beta, optimum)
    assert (share <= bound).all()
    assert v < 3 or share.max() > 0.01  # the noise is large enough to leave the region


def test_eq_2_cannot_be_sharper():
    # Chebyshev's worst case: 0 or ±k, around a mean that is the optimum; β just below k.
    k, rare = 3.0, 0.1
    variance = rare * k**2
    assert theory.divergence_bound(variance, k - 1e-9, 0.0) == pytest.approx(rare)
    # The distance counts: with θ0 near the edge of the region a little noise is enough.
    theta = 1.0 + 0.1 * torch.randn(WALKS, generator=torch.Generator().manual_seed(0))
    share = (theta.abs() > 1.1).double().mean()
    assert theory.divergence_bound(0.01, 1.1, 0.0) < share
    assert share <= theory.divergence_bound(0.01, 1.1, 1.0) + 1e-9


def test_one_model_enters_a_domain_from_afar_and_an_expert_where_it_left():
    h, alpha, length, rounds = 1.0, 0.98, 10, 8
    theta0 = torch.zeros(2, dtype=torch.float64)
    optima = torch.tensor([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    domains = [k for _ in range(rounds) for k in range(3) for _ in range(length)]

    def pull(theta, t):
        return h * (theta - optima[domains[t]])

    rests = theory.resting_point(theta0, optima, ETA, alpha, h)
    forget = (alpha * (1 - ETA * h)) ** length
    last = [(3 * (rounds - 1) + k) * length for k in range(3)]
    error = 4 * math.sqrt(theory.curved_variance(10_000, ETA, V, alpha, h) / WALKS)
    for route, predicted, updates in [
        (None, theory.single_entry(rests, forget), last[0]),
        (domains, theory.expert_entry(rests, theta0, forget, rounds), (rounds - 1) * length),
    ]:
        path = walk(pull, len(domains), theta0, alpha=alpha, route=route)[last]
        torch.testing.assert_close(path.mean(1), predicted, atol=error, rtol=0)
        # Domains move the mean alone: the variance counts a model's own updates.
        assert agrees(path[0].var(0).mean(), theory.curved_variance(updates, ETA, V, alpha, h))
    assert (predicted - optima).norm(dim=1).max() < 0.3
    assert (theory.single_entry(rests, forget) - optima).norm(dim=1).min() > 1


# The simulation itself, and the command line


def test_walks_are_repeatable_and_leave_the_global_generator_alone():
    state = torch.get_rng_state()
    first = walk(walks=3, steps=5, seed=1)
    assert torch.equal(first, walk(walks=3, steps=5, seed=1))
    assert not torch.equal(first, walk(walks=3, steps=5, seed=2))
    assert torch.equal(state, torch.get_rng_state())
    assert first.shape == (6, 3, 1)


def test_command_line_prints_the_claims_and_draws_them(tmp_path, capsys):
    check_theory.main(["--walks", "500", "--out", str(tmp_path / "new")])
    out = capsys.readouterr().out
    assert "(a) SGD, η = 0.1, flat loss: Eq. (1)" in out
    assert "relative difference" in out
    assert (tmp_path / "new" / "theory.png").read_bytes().startswith(b"\x89PNG")
