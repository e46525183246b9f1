import json
import os
import signal
from contextlib import contextmanager, nullcontext

import pytest

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.runs.work_dir import describe_results, has_results, locked, remove_results


@contextmanager
def child(work):
    """Another process, which has done its work and lives until it is killed."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            with work():
                os.write(write, b"!")
                signal.pause()
        finally:
            os._exit(1)
    os.close(write)
    try:
        assert os.read(read, 1) == b"!"
        yield process
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path):
    with child(lambda: locked(tmp_path)) as process:
        message = rf"process {process} is writing into {tmp_path}: wait .* --work-dir"
        with pytest.raises(ReservoirError, match=message), locked(tmp_path):
            pass
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_a_worker_of_the_first_does_not_keep_the_lock(tmp_path):
    with locked(tmp_path):
        worker = child(nullcontext)
        worker.__enter__()
    with child(lambda: locked(tmp_path)):  # it lives on, and another process gets the lock
        pass
    worker.__exit__(None, None, None)


def test_what_a_killed_process_left_is_removed(tmp_path):
    for name in ("results.json.7.partial", "state/0000000001.safetensors.7.partial"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("half")
    with locked(tmp_path):
        assert list(tmp_path.rglob("*.partial")) == []


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with (
        pytest.raises(ReservoirError, match=r"cannot write into .*file \(File exists\): remove"),
        locked(tmp_path / "file"),
    ):
        pass

    def refuse(*args, **options):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(ReservoirError, match=r"\(Read-only file system\)"), locked(tmp_path):
        pass


def test_results(tmp_path):
    assert not has_results(tmp_path)
    path = tmp_path / "results.json"
    for content, what in [
        (json.dumps({"complete": True}), "the results of a complete run"),
        (json.dumps({"complete": False}), "the results of an unfinished run"),
        ("{", "results"),
        ("[]", "results"),
    ]:
        path.write_text(content)
        assert has_results(tmp_path)
        assert describe_results(tmp_path) == what
    (tmp_path / "results.csv").touch()
    (tmp_path / "routes.jsonl").touch()
    (tmp_path / "notes.txt").touch()
    remove_results(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_a_folder_that_cannot_be_made_names_the_options_of_all_verbs(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(ReservoirError, match="--work-dir or --out"),
        locked(tmp_path / "file" / "w"),
    ):
        pass
