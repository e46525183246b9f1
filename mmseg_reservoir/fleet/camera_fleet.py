"""A fleet of cameras on Ray: one actor per camera, and one that merges their experts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import ignore_third_party_warnings, one_line
from .camera_run import CameraRun
from .merging_point import MergingPoint


class _CameraActor:
    """A camera in a separate process. It has no arguments, so that Ray can always restart it."""

    def __init__(self) -> None:
        ignore_third_party_warnings()  # before the arguments of `run` import mmseg

    def run(self, here: str, camera: CameraRun, point: Any | None) -> dict[str, Any]:
        """Run a camera, from its last state if the process was restarted.

        Args:
            here: Folder that relative paths refer to, since Ray's processes start in another one.
            camera: The camera.
            point: Actor of the merging point; None shares no experts.
        """
        import ray

        os.chdir(here)
        if point is None:
            return camera.run()
        return camera.run(lambda *words: ray.get(point.exchange.remote(*words)))


def run_fleet(
    ray: Any,
    cameras: Sequence[CameraRun],
    folder: str | os.PathLike,
    merging: bool = True,
    restarts: int = 3,
    cpus: float = 1.0,
    report: Callable[[str], object] = print,
) -> dict[str, dict[str, Any]]:
    """Run all cameras to the end of their streams.

    Ray restarts an actor that dies, and the camera resumes from its last state. Cameras run in
    parallel as far as there are cores; the others wait.

    Args:
        ray: The module, connected (see :func:`ray_session`).
        cameras: The cameras. All of them start with the same reservoir.
        folder: Folder of the merged reservoir.
        merging: Whether the cameras share experts. Defaults to True.
        restarts: Largest number of restarts of each camera. Defaults to 3.
        cpus: Cores for each camera. Defaults to 1.
        report: Called with a line when a camera has ended. Defaults to ``print``.

    Returns:
        The result of :meth:`CameraRun.run` by name, or ``error`` for a camera that failed.
    """
    point = None
    if merging:
        # Restarts and retries are unlimited, since no exchange is merged twice.
        kind = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(MergingPoint)
        start = cameras[0].start_from
        start = None if start is None else str(Path(start).resolve())
        point = kind.remote(str(Path(folder).resolve()), start)
    kind = ray.remote(num_cpus=cpus, max_restarts=restarts, max_task_retries=restarts)(_CameraActor)
    actors = {camera.name: kind.remote() for camera in cameras}
    waiting = {actors[c.name].run.remote(os.getcwd(), c, point): c.name for c in cameras}
    outcomes: dict[str, dict[str, Any]] = {}
    while waiting:
        (done,), _ = ray.wait(list(waiting))
        name = waiting.pop(done)
        try:
            outcomes[name] = ray.get(done)
            report(f"{name}: {outcomes[name]['frames']} frames, {outcomes[name]['k']} experts")
        except ray.exceptions.RayError as error:  # the others continue
            outcomes[name] = {"error": last_words(error)}
            report(f"{name}: failed: {outcomes[name]['error']}")
        del actors[name]  # this ends the actor and frees its core
    return {camera.name: outcomes[camera.name] for camera in cameras}


def last_words(error: Exception) -> str:
    """Return the error of another process in one line, without its traceback."""
    cause = getattr(error, "cause", None)
    return one_line(cause if isinstance(cause, Exception) else error)
