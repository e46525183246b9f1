"""Calls one model from many threads, for tests."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

THREADS = 8


def call_from_threads(call: Callable[[Any], Any], inputs: Sequence[Any]) -> list[Any]:
    """Return what a function returns for every input; eight threads call it at the same time."""
    barrier = Barrier(THREADS, timeout=60)

    def work(first: int) -> list[Any]:
        barrier.wait()
        return [call(one) for one in inputs[first::THREADS]]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # so that threads interrupt each other anywhere
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            parts = list(pool.map(work, range(THREADS)))
    finally:
        sys.setswitchinterval(interval)
    return [parts[index % THREADS][index // THREADS] for index in range(len(inputs))]


def record_order(pipeline: Any, name: str) -> list[Any]:
    """Let a pipeline note the inputs of its method ``step`` or ``infer``, in their order."""
    method, order = getattr(pipeline, name), []

    def noted(inputs: Any, **options: Any) -> Any:
        order.append(inputs)
        return method(inputs, **options)

    setattr(pipeline, name, noted)
    return order
