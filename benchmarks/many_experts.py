"""How long it takes to find the nearest of very many centroids: a matrix product or an index.

    python benchmarks/many_experts.py

Centroids are drawn around a few thousand points, as those of conditions at many places are, in the
width of the default style. The plain way is one product of the style with the matrix of all
centroids; the index is hnswlib's (pip install hnswlib), as it comes, with ``ef`` 64. Told are
microseconds of the processor for one query (median of many; set OMP_NUM_THREADS=1), how often the
index finds the true nearest, how long it takes to build, and what both hold.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from mmseg_reservoir.report.tables import make_table

CENTRES = 2000


def draw(count: int, width: int, seed: int) -> np.ndarray:
    """Centroids in clumps, ``(count, width)``."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CENTRES, width))
    chosen = centres[rng.integers(CENTRES, size=count)]
    return (chosen + 0.5 * rng.normal(size=(count, width))).astype(np.float32)


class MatrixProduct:
    """The nearest by ``|c|^2 - 2 c s``: one product for all."""

    def __init__(self, centroids: np.ndarray) -> None:
        self.centroids = centroids
        self.squares = np.square(centroids).sum(axis=1)

    def nearest(self, style: np.ndarray) -> int:
        """The number of the nearest centroid."""
        return int((self.squares - 2 * (self.centroids @ style)).argmin())

    @property
    def megabytes(self) -> float:
        """Of all that it holds."""
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
        """The number of what it takes for the nearest centroid."""
        return int(self.index.knn_query(style[None], k=1)[0][0, 0])

    @property
    def megabytes(self) -> float:
        """Of its file, which holds what it holds."""
        return self.index.index_file_size() / 1e6


def median_time(nearest: Callable[[np.ndarray], int], styles: np.ndarray) -> float:
    """Microseconds of one query."""
    times = []
    for style in styles:
        start = time.process_time()
        nearest(style)
        times.append(time.process_time() - start)
    return 1e6 * statistics.median(times)


def measure(count: int, width: int, queries: int) -> list[str]:
    """A row of the table."""
    centroids = draw(count, width, seed=0)
    rng = np.random.default_rng(1)
    near = centroids[rng.integers(count, size=queries)]
    styles = (near + 0.3 * rng.normal(size=near.shape)).astype(np.float32)
    plain = MatrixProduct(centroids)
    row = [f"{count}", f"{median_time(plain.nearest, styles):.0f}", f"{plain.megabytes:.1f}"]
    start = time.process_time()
    try:
        graph = GraphIndex(centroids)
    except ModuleNotFoundError:
        return [*row, "-", "-", "-", "-"]
    built = time.process_time() - start
    right = np.mean([graph.nearest(style) == plain.nearest(style) for style in styles])
    microseconds = median_time(graph.nearest, styles)
    return [*row, f"{microseconds:.0f}", f"{right:.3f}", f"{built:.1f}", f"{graph.megabytes:.1f}"]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experts", nargs="+", type=int, default=[100, 1000, 10_000])
    parser.add_argument("--width", type=int, default=768, help="of a style")
    parser.add_argument("--queries", type=int, default=500)
    args = parser.parse_args(argv)
    rows = [measure(count, args.width, args.queries) for count in args.experts]
    header = ["experts", "product, us", "MB", "index, us", "right", "to build, s", "MB "]
    print(make_table(header, rows, markdown=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
