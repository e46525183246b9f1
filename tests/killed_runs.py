"""Runs of the command lines in processes of their own, which can be killed; for tests.

The processes are forked from a server that has imported everything, with one thread each.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmseg_reservoir.io.state_files import read_state

ROOT = Path(__file__).resolve().parent.parent
CLOCKS = ("seconds", "seconds_per_image", "seconds_quartiles", "cpu_seconds", "stages")
_CONTEXT = multiprocessing.get_context("forkserver")
_PRELOADED = ["mmseg_reservoir.seg", "mmseg_reservoir.cls.run", "sklearn.covariance"]
_CONTEXT.set_forkserver_preload(_PRELOADED)


@dataclass(frozen=True)
class Kill:
    """SIGKILL when a function is called for the n-th time.

    Args:
        place: ``package.module:Class.function``.
        call: n.
        then: Only at the first call of this function after that.
    """

    place: str
    call: int = 1
    then: str | None = None

    def arm(self) -> None:
        """Lie in wait in this process."""
        module, _, names = self.place.partition(":")
        owner = importlib.import_module(module)
        *path, name = names.split(".")
        for part in path:
            owner = getattr(owner, part)
        function, calls = getattr(owner, name), []

        def count(*args: Any, **options: Any) -> Any:
            calls.append(1)
            if len(calls) == self.call:
                if self.then is None:
                    os.kill(os.getpid(), signal.SIGKILL)
                Kill(self.then).arm()
            return function(*args, **options)

        setattr(owner, name, count)


def start(tool: str, words: Sequence[object], folder: Path, kill: Kill | None = None) -> Any:
    """Begin to run a tool in a folder; its output goes to ``output.txt`` there."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = (tool, [str(word) for word in words], folder, kill)
    process = _CONTEXT.Process(target=_run, args=arguments)
    process.start()
    return process


def run(tool: str, words: Sequence[object], folder: Path, kill: Kill | None = None) -> int:
    """Run a tool in a folder to its end; returns the exit code, that of a signal negative."""
    process = start(tool, words, folder, kill)
    process.join()
    return process.exitcode


def output(folder: Path) -> str:
    """What runs in a folder said so far."""
    return (folder / "output.txt").read_text(encoding="utf-8")


def outcome(folder: Path) -> tuple[str, Any, dict[str, bytes]]:
    """All that came out of a run, but for its clocks: results, last state, pictures.

    The work directory is ``w`` in the folder, pictures are in ``panels``.
    """
    results = json.loads((folder / "w" / "results.json").read_text(encoding="utf-8"))
    assert results["complete"]
    (last,) = (folder / "w" / "state").glob("*.safetensors")
    pictures = sorted((folder / "panels").rglob("*.png"))
    pictures = {str(path.relative_to(folder)): path.read_bytes() for path in pictures}
    return json.dumps(_timeless(results)), _timeless(read_state(last)[0]), pictures


def _run(tool: str, words: list[str], folder: Path, kill: Kill | None) -> None:
    import torch

    os.chdir(folder)
    file = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, sys.stdout.fileno())
    os.dup2(file, sys.stderr.fileno())
    torch.set_num_threads(1)
    if kill is not None:
        kill.arm()
    sys.exit(importlib.import_module(f"tools.{tool}").main(words))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(part) for key, part in value.items() if key not in CLOCKS}
    if isinstance(value, list | tuple):
        return type(value)(map(_timeless, value))
    return value
