"""A test whether the frames of a domain belong to two domains, each coherent in time."""

from __future__ import annotations

import math

import numpy as np

_ROUNDS = 6


def find_split(
    styles: np.ndarray,
    times: np.ndarray,
    precision: float,
    reach: float,
    dimensions: float,
    switch: float,
    run: int,
) -> tuple[np.ndarray, float]:
    """Split a domain's members in two; return the part with the newest frames and its log odds.

    Two means and a sequence of labels are fitted in turn. Changes of the label have a cost. The
    first labels separate the newest frames from all others.

    Args:
        styles: Styles of the members, ``(n, d)``, oldest first.
        times: Time of each member, in frames. After a gap a change of the label costs nothing.
        precision: Inverse of the domain's spread.
        reach: Expected squared distance between two domains.
        dimensions: Number of independent directions in which styles scatter.
        switch: Probability that the domain changes from one frame to the next.
        run: Smallest mean run of both parts, in frames.

    Returns:
        Whether each member belongs to the new part, and the log odds for it; minus infinity
        if there is no such part.
    """
    products = styles @ styles.T
    starts = np.append(True, np.diff(times) > 1)
    price = math.log(switch / 2) - math.log1p(-switch / 2)

    def evidence(labels: np.ndarray) -> float:
        n, m = labels.sum(), (~labels).sum()
        if min(n, m) < run or not labels[1 - run :].all():
            return -math.inf
        changes = np.append(True, labels[1:] != labels[:-1])
        runs = changes | starts
        # Recurring outlier frames resemble a domain, but form no long runs.
        if min(n / (runs & labels).sum(), m / (runs & ~labels).sum()) < run:
            return -math.inf
        pairs = n * m / (n + m)
        between = np.where(labels, 1 / n, -1 / m)
        square = between @ products @ between
        # The gain in likelihood, minus the gain that two free means have by chance.
        gain = dimensions / 2 * (pairs * square * precision - math.log1p(pairs * reach * precision))
        return float(gain + price * (changes & ~starts).sum())

    best = np.zeros(len(styles), dtype=bool), -math.inf
    for seed in (run, run + 2):
        labels = np.arange(len(styles)) >= len(styles) - seed
        for _ in range(_ROUNDS):
            if min(labels.sum(), (~labels).sum()) < run:
                break
            before = labels
            nearer = _nearer(products, labels)
            labels = _decode(dimensions / 2 * precision * nearer, starts, price)
            if (labels == before).all():
                break
        odds = evidence(labels)
        if odds > best[1]:
            best = labels, odds
    return best


def _nearer(products: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return each member's squared distance to the unlabeled mean minus that to the labeled mean.

    It is computed from the scalar products of members, which is faster than from long styles.
    """
    far, near = (rows / rows.sum() for rows in (~labels, labels))
    to_far, to_near = products @ far, products @ near
    gains: np.ndarray = far @ to_far - near @ to_near - 2 * (to_far - to_near)
    return gains


def _decode(gains: np.ndarray, starts: np.ndarray, price: float) -> np.ndarray:
    """Return the best sequence of two labels (Viterbi).

    ``gains`` are the log-likelihood gains of the second label over the first.
    """
    first, second = 0.0, 0.0
    back = []
    for gain, start in zip(gains.tolist(), starts.tolist(), strict=True):
        cost = 0.0 if start else price
        to_first, to_second = second + cost > first, first + cost > second
        back.append((int(to_first), int(not to_second)))
        first, second = max(first, second + cost), max(second, first + cost) + gain
    label = int(second > first)
    labels = np.zeros(len(gains), dtype=bool)
    for i in range(len(gains) - 1, -1, -1):
        labels[i] = label
        label = back[i][label]
    return labels
