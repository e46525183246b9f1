"""Runs of the command lines in processes of their own, which can be killed; for tests.

The processes are forked from a server that has imported everything, with one thread each.
"""

from __future__ import annotations

import importlib
import itertools
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
    """SIGKILL at a call of a function.

    Args:
        function: ``package.module:Class.function``.
        call: Number of the call, or its fraction of all calls of an unkilled run.
        then: If given, kill at the first call of this function after that.
    """

    function: str
    call: int | float = 1
    then: str | None = None

    def of(self, calls: dict[str, int]) -> Kill:
        """Return this kill with a call number, given the calls of an unkilled run."""
        if isinstance(self.call, int):
            return self
        return replace(self, call=1 + int(self.call * calls[self.function]))

    def arm(self) -> None:
        """Wait for the call in this process."""

        def kill_at(calls: int) -> None:
            if calls == self.call:
                if self.then is None:
                    os.kill(os.getpid(), signal.SIGKILL)
                Kill(self.then).arm()

        _watch(self.function, kill_at)


def run(
    tool: str,
    words: Sequence[object],
    folder: Path,
    kill: Kill | None = None,
    counted: Collection[str] = (),
) -> int:
    """Run a tool in a folder, with its output in ``output.txt``; return its exit code.

    That of a signal is negative. The calls of ``counted`` functions are in ``calls.json``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    arguments = (tool, [str(word) for word in words], folder, kill, counted)
    process = _CONTEXT.Process(target=_run, args=arguments)
    process.start()
    process.join()
    return process.exitcode


def counted_calls(folder: Path) -> dict[str, int]:
    """Return how often each counted function was called by the run of a folder."""
    return json.loads((folder / "calls.json").read_text(encoding="utf-8"))


def output(folder: Path) -> str:
    """Return the output of the runs of a folder so far."""
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


def _watch(function: str, notify: Callable[[int], None]) -> None:
    """Call ``notify`` with the number of the call before each call of a function."""
    module, _, names = function.partition(":")
    owner = importlib.import_module(module)
    *path, name = names.split(".")
    for part in path:
        owner = getattr(owner, part)
    original, numbers = getattr(owner, name), itertools.count(1)

    def call(*args: Any, **options: Any) -> Any:
        notify(next(numbers))
        return original(*args, **options)

    setattr(owner, name, call)


def _run(
    tool: str, words: list[str], folder: Path, kill: Kill | None, counted: Collection[str]
) -> None:
    import torch

    os.chdir(folder)
    file = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, sys.stdout.fileno())
    os.dup2(file, sys.stderr.fileno())
    torch.set_num_threads(1)
    if kill is not None:
        kill.arm()
    calls = dict.fromkeys(counted, 0)
    for function in counted:
        _watch(function, partial(calls.__setitem__, function))
    code = importlib.import_module(f"tools.{tool}").main(words)
    if counted:
        Path(folder, "calls.json").write_text(json.dumps(calls), encoding="utf-8")
    sys.exit(code)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(part) for key, part in value.items() if key not in CLOCKS}
    if isinstance(value, list | tuple):
        return type(value)(map(_timeless, value))
    return value
