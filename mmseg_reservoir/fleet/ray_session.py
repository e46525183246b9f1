"""A context in which Ray runs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import ReservoirError


@contextmanager
def ray_session(address: str | None = None, jobs: int | None = None) -> Iterator[Any]:
    """Connect the module ``ray`` to a cluster or to processes of this machine, and yield it.

    Args:
        address: Address of a cluster, or ``"auto"`` for the one that this machine belongs to.
            Defaults to None, which starts Ray on this machine and stops it at the end.
        jobs: Number of cores of this machine to use. Defaults to None, all of them.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ReservoirError(
            f'sweeps and fleets need {error.name}: pip install "mmseg_reservoir[ray]"'
        ) from error
    if jobs is not None and (jobs < 1 or address is not None):
        raise ReservoirError(
            f"--jobs must be 1 or more cores of this machine, without --ray; got {jobs}"
        )
    options: dict[str, Any] = {"address": address}
    if not address:
        options = {"num_cpus": jobs, "include_dashboard": False}
        options["address"] = "local"  # also if RAY_ADDRESS names a cluster
        # Ray's processes can import the same modules as this one.
        paths = os.pathsep.join(filter(None, sys.path))
        options["runtime_env"] = {"env_vars": {"PYTHONPATH": paths}}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**options, logging_level="ERROR")  # type: ignore[arg-type]
    except Exception as error:  # Ray raises errors of any type, also plain Exception
        raise ReservoirError(
            f"Ray did not start ({error}): check --ray {address}"
            if address
            else f"Ray did not start ({error}): is the machine busy? Try again, or start Ray "
            "yourself (ray start --head) and give --ray auto"
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)  # Ray's handler exits silently
    try:
        yield ray
    finally:
        ray.shutdown()
