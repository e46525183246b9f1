"""The time to find the nearest of very many centroids: a matrix product against an index.

    python benchmarks/many_experts.py

Centroids are drawn around a few thousand points, like conditions at many locations, with the width
of the default style. The plain method is one product of the style with the matrix of all centroids.
The index is hnswlib's (pip install hnswlib) with its defaults and ``ef`` 64. The table has the CPU
time of a query in microseconds (median; set OMP_NUM_THREADS=1), the share of queries for which the
index returns the true nearest centroid, the time to build it, and the memory of both.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # to run as a script, too

from benchmarks.common import median_seconds
from mmseg_reservoir.report.tables import make_table

CENTERS = 2000


def draw(count: int, width: int, seed: int) -> np.ndarray:
    """Return centroids in clumps, ``(count, width)``."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(CENTERS, width))
    chosen = centers[rng.integers(CENTERS, size=count)]
    return (chosen + 0.5 * rng.normal(size=(count, width))).astype(np.float32)


class MatrixProduct:
    """Nearest centroid by ``|c|^2 - 2 c s``: one product for all."""

    def __init__(self, centroids: np.ndarray) -> None:
        self.centroids = centroids
        self.squares = np.square(centroids).sum(axis=1)

    def nearest(self, style: np.ndarray) -> int:
        """Return the index of the nearest centroid."""
        return int((self.squares - 2 * (self.centroids @ style)).argmin())

    @property
    def megabytes(self) -> float:
        """Its memory."""
        return (self.centroids.nbytes + self.squares.nbytes) / 1e6


class GraphIndex:
    """hnswlib's navigable graph."""

    def __init__(self, centroids: np.ndarray) -> None:
        import hnswlib

        self.index = hnswlib.Index(space="l2", dim=centroids.shape[1])
        self.index.init_index(max_elements=len(centroids), ef_construction=200, M=16)
        self.index.set_num_threads(1)
        self.index.add_items(centroids)
        self.index.set_ef(64)

    def nearest(self, style: np.ndarray) -> int:
        """Return the index of its approximate nearest centroid."""
        return int(self.index.knn_query(style[None], k=1)[0][0, 0])

    @property
    def megabytes(self) -> float:
        """The size of its file, which is that of its memory."""
        return self.index.index_file_size() / 1e6


def microseconds(nearest: Callable[[np.ndarray], int], styles: np.ndarray) -> float:
    """Return the median CPU time of a query."""
    return 1e6 * median_seconds(partial(nearest, style) for style in styles)


def measure(count: int, width: int, queries: int) -> list[str]:
    """Return a row of the table."""
    centroids = draw(count, width, seed=0)
    rng = np.random.default_rng(1)
    near = centroids[rng.integers(count, size=queries)]
    styles = (near + 0.3 * rng.normal(size=near.shape)).astype(np.float32)
    plain = MatrixProduct(centroids)
    row = [f"{count}", f"{microseconds(plain.nearest, styles):.0f}", f"{plain.megabytes:.1f}"]
    start = time.process_time()
    try:
        graph = GraphIndex(centroids)
    except ModuleNotFoundError:
        return [*row, "-", "-", "-", "-"]
    built = time.process_time() - start
    right = np.mean([graph.nearest(style) == plain.nearest(style) for style in styles])
    query = microseconds(graph.nearest, styles)
    return [*row, f"{query:.0f}", f"{right:.3f}", f"{built:.1f}", f"{graph.megabytes:.1f}"]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experts", nargs="+", type=int, default=[100, 1000, 10_000])
    parser.add_argument("--width", type=int, default=768, help="length of a style")
    parser.add_argument("--queries", type=int, default=500)
    args = parser.parse_args(argv)
    rows = [measure(count, args.width, args.queries) for count in args.experts]
    header = ["experts", "product, us", "MB", "index, us", "right", "to build, s", "MB "]
    print(make_table(header, rows, markdown=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
