"""Styles of a run in the plane, by PCA or t-SNE, with the way that each expert's mean took."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from ..runs.style_sample import Styles
from .tables import Results

FEWEST = 5
"""Styles below which there is nothing to see."""
_PERPLEXITY = 30


class StyleMap(NamedTuple):
    """Points ``(n, 2)`` with what is known of each, and the paths of the experts' means."""

    points: np.ndarray
    domains: list[str]
    experts: list[int]
    rounds: list[int]
    paths: dict[int, list[tuple[int, float, float]]]
    """By expert: round, x and y of the mean of all its styles up to the end of that round."""


def style_map(
    results: Results, styles: Styles, projection: Literal["pca", "tsne"] = "pca"
) -> StyleMap:
    """Project the styles that were kept; every channel has variance 1 first.

    A t-SNE has no place for a point that was not there when it was made, so the means of the
    experts are part of it.
    """
    routes = [results["routes"][index] for index in styles.routes]
    experts = np.array([route["expert"] for route in routes])
    rounds = np.array([route["round"] for route in routes])
    spread = styles.vectors.std(axis=0)
    vectors = (styles.vectors - styles.vectors.mean(axis=0)) / np.where(spread > 0, spread, 1)
    places = [
        (int(expert), int(number))
        for expert in np.unique(experts)
        for number in np.unique(rounds[experts == expert])
    ]
    means = [vectors[(experts == e) & (rounds <= number)].mean(axis=0) for e, number in places]
    everything = np.concatenate([vectors, np.stack(means)])
    if projection == "tsne":
        perplexity = min(_PERPLEXITY, (len(everything) - 1) / 3)
        plane = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(everything)
    else:
        # By the styles alone: means of few would count as much as styles.
        plane = PCA(2, random_state=0).fit(vectors).transform(everything)
    paths: dict[int, list[tuple[int, float, float]]] = {}
    for (expert, number), (x, y) in zip(places, plane[len(vectors) :].tolist(), strict=True):
        paths.setdefault(expert, []).append((number, x, y))
    return StyleMap(
        plane[: len(vectors)],
        [route["domain"] for route in routes],
        experts.tolist(),
        rounds.tolist(),
        paths,
    )
