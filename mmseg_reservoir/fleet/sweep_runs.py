"""The runs of a sweep: what each of them is, whether it is done, and how it is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config.config_files import find_config, read_config
from ..errors import ReservoirError
from ..io.files import digest, write_text

_COMMAND = "sweep.json"
_LAST_LINES = 15


class RunFailedError(Exception):
    """A run ended with an exit code other than 0. The message is the end of its log."""


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep: a process with a work directory.

    Args:
        name: Name of the run in messages.
        verb: ``test`` or ``classify``.
        config: Config file.
        work_dir: Work directory.
        words: Further arguments of the command line.
        digest: Digest of the whole config.
        here: Folder that relative paths in the config refer to.
    """

    name: str
    verb: str
    config: str
    work_dir: str
    words: tuple[str, ...]
    digest: str
    here: str

    def is_complete(self) -> bool:
        """Return whether the run is complete; raise an error if the folder holds another run."""
        folder = Path(self.work_dir)
        command = folder / _COMMAND
        if command.is_file() and json.loads(command.read_text("utf-8")) != self._command():
            raise ReservoirError(
                f"{folder} holds a run with other options, or of a config that has changed since: "
                "choose another folder with --out, or remove it"
            )
        results = folder / "results.json"
        return results.is_file() and json.loads(results.read_text("utf-8"))["complete"]

    def _command(self) -> dict[str, Any]:
        return {"words": list(self.words), "config": self.digest}

    def run(self, threads: int = 1) -> str:
        """Start the run, or resume a killed one; return its name.

        Raises:
            RunFailedError: With the last lines of its log.
        """
        folder = Path(self.work_dir)
        write_text(folder / _COMMAND, json.dumps(self._command()))
        reservoir = [sys.executable, "-m", "mmseg_reservoir.cli"]
        command = [*reservoir, self.verb, self.config, f"--work-dir={folder}", "--resume"]
        with (folder / "log.txt").open("a", encoding="utf-8") as log:
            process = subprocess.Popen(
                [*command, *self.words],
                cwd=self.here,
                env={**os.environ, "OMP_NUM_THREADS": str(threads)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                process.wait()
            finally:
                process.terminate()  # no effect on a process that has ended
                process.wait()  # it saves its state first
        if process.returncode:
            lines = (folder / "log.txt").read_text("utf-8", errors="replace").splitlines()
            raise RunFailedError("\n".join(lines[-_LAST_LINES:]))
        return self.name


def make_runs(
    configs: Iterable[str],
    seeds: Sequence[int],
    out: Path,
    methods: Sequence[str] = (),
    words: Sequence[str] = (),
) -> list[SweepRun]:
    """Return a run for every config, row and seed.

    Args:
        configs: Files, or names of bundled ones, for either task.
        seeds: Seeds of each config and row.
        out: Parent of all work directories. That of a run is ``CONFIG[_METHOD]/seed0`` there.
        methods: Rows to run of configs that are tables. Defaults to none.
        words: Further arguments of every command line, such as ``--cfg-options``. Defaults to none.
    """
    runs = []
    for path in map(find_config, configs):
        cfg = read_config(path, {})
        is_table = "test_dataloader" not in cfg
        if is_table and cfg.get("rows") and not methods:
            rows = ", ".join(cfg["rows"])
            raise ReservoirError(f"{path} is a table: choose rows of it, --method, of {rows}")
        checksum = digest(cfg.pretty_text)
        for method in methods if is_table and cfg.get("rows") else [None]:
            stem = f"{path.parent.name}/{path.stem}" + (f"_{method}" if method else "")
            row = [f"--method={method}"] if method else []
            for seed in seeds:
                folder = (out / stem / f"seed{seed}").resolve()
                own = (*row, f"--seed={seed}", *words)
                verb = "classify" if is_table else "test"
                files = str(path.resolve()), str(folder)
                runs.append(
                    SweepRun(f"{stem} seed {seed}", verb, *files, own, checksum, os.getcwd())
                )
    folders = [run.work_dir for run in runs]
    twice = {folder for folder in folders if folders.count(folder) > 1}
    if twice:
        raise ReservoirError(f"two runs would share a folder: {', '.join(sorted(twice))}")
    return runs
