"""Ray, for as long as it is needed."""

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
    """Yield the module ``ray``, connected to a cluster or to processes of this machine.

    Args:
        address: Address of a cluster (``"auto"``: the one that this machine belongs to). None
            starts Ray here, and ends it afterwards.
        jobs: Number of cores of this machine to use; None for all.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ReservoirError(
            f'sweeps and fleets need {error.name}: pip install "mmseg_reservoir[ray]"'
        ) from error
    if jobs is not None and (jobs < 1 or address is not None):
        raise ReservoirError(
            f"--jobs is a number of cores of this machine, 1 or more, and not for a cluster, got "
            f"{jobs}"
        )
    options: dict[str, Any] = {"address": address}
    if not address:
        options = {"num_cpus": jobs, "include_dashboard": False}
        options["address"] = "local"  # overrides RAY_ADDRESS
        # What can be imported here can be in its processes.
        paths = os.pathsep.join(filter(None, sys.path))
        options["runtime_env"] = {"env_vars": {"PYTHONPATH": paths}}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**options, logging_level="ERROR")  # type: ignore[arg-type]
    except Exception as error:  # Ray raises plain Exceptions, too
        raise ReservoirError(
            f"Ray did not start ({error}): check --ray {address}"
            if address
            else f"Ray did not start ({error}): is the machine busy? Try again, or start Ray "
            "yourself (ray start --head) and give --ray auto"
        ) from error
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)  # Ray's handler exits without a message
    try:
        yield ray
    finally:
        ray.shutdown()
