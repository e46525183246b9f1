"""A lock for one adapting model."""

from __future__ import annotations

import threading


class ModelLock:
    """A reentrant lock for a ``with`` statement. A copy is a new lock, for a copied model.

    A prediction loads the parameters of an expert into the model. So even a frozen model cannot
    predict in two threads at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[ModelLock], tuple[()]]:
        return ModelLock, ()
