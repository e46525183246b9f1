import errno
import logging
import signal
import subprocess

import pytest

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.state_files import write_state
from mmseg_reservoir.runs.run_saver import RunSaver, saved_seed

IDENTITY = {"config": {"method": "tent"}}


def saved(saver):
    return [int(path.stem) for path in saver.states.files()]


def run(folder, upto, **options):
    """A run that counts to ``upto``; returns where it began."""
    with RunSaver(folder, **options) as saver:
        state = saver.begin(IDENTITY)
        first = 0 if state is None else state["images"]
        if state is None:
            saver.save(0, lambda: {"images": 0})
        for images in range(first + 1, upto + 1):
            saver.after(images, lambda images=images: {"images": images})
    return first


def test_a_run_goes_on_where_it_was_saved(tmp_path):
    said = []
    assert run(tmp_path, 7, images=3) == 0
    assert run(tmp_path, 8, images=3, resume="auto", report=said.append) == 6
    assert said == [f"resumed after 6 images, from {tmp_path}/state/0000000006.safetensors"]
    assert run(tmp_path, 9, images=3, resume="auto") == 6
    assert run(tmp_path, 9, images=3, resume="auto") == 9


def test_it_is_saved_after_so_many_minutes(tmp_path, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with RunSaver(tmp_path, minutes=2) as saver:
        saver.begin(IDENTITY)
        saver.save(0, dict)
        for images, now in [(1, 219.0), (2, 220.0), (3, 300.0), (4, 341.0)]:
            clock[0] = now
            saver.after(images, dict)
        assert saved(saver) == [2, 4]
        saver.after(5, dict, landmark=True)
        assert saved(saver) == [4, 5]


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_saves_and_stops(tmp_path, number, error):
    said = []
    with RunSaver(tmp_path, report=said.append) as saver:
        saver.begin(IDENTITY)
        saver.save(0, dict)
        signal.raise_signal(number)
        with pytest.raises(error):
            saver.after(3, dict)
    assert saved(saver) == [0, 3]
    assert said == ["stopped after 3 images: continue with --resume"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_before_the_stream_a_signal_stops_at_once(tmp_path):
    with pytest.raises(KeyboardInterrupt), RunSaver(tmp_path):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("results", [None, '{"complete": false}', '{"complete": true}'])
def test_what_is_there_is_not_overwritten_silently(tmp_path, results):
    run(tmp_path, 3, images=1)
    if results:
        (tmp_path / "results.json").write_text(results)
    what = {
        None: "a run that was saved after 3 images",
        '{"complete": false}': "the results of an unfinished run",
        '{"complete": true}': "the results of a complete run",
    }[results]
    message = f"{tmp_path} holds {what}: continue it with --resume, replace it with --overwrite, or"
    with pytest.raises(ReservoirError, match=message):
        run(tmp_path, 3)
    assert run(tmp_path, 5, overwrite=True) == 0
    assert not (tmp_path / "results.json").exists()


def test_a_run_that_has_not_begun_may_be_begun_again(tmp_path):
    run(tmp_path, 0)
    assert run(tmp_path, 2) == 0


def test_resume_without_a_state(tmp_path):
    said = []
    assert run(tmp_path, 0, resume="auto", report=said.append) == 0
    assert said == [f"no state in {tmp_path}/state: the run starts at its first image"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "results.json").write_text('{"complete": true}')
    with pytest.raises(ReservoirError, match="complete run, but no state to resume from"):
        run(other, 1, resume="auto")
    with pytest.raises(ReservoirError, match="No such file"):
        run(tmp_path / "new", 1, resume=str(tmp_path / "none.safetensors"))


def test_resume_with_a_certain_state(tmp_path):
    run(tmp_path / "a", 3, images=1)
    chosen = str(tmp_path / "a" / "state" / "0000000002.safetensors")
    assert run(tmp_path / "b", 4, resume=chosen) == 2
    run(tmp_path / "c", 3, images=1)
    with pytest.raises(ReservoirError, match="holds a run that was saved after 3 images"):
        run(tmp_path / "c", 4, resume=chosen)
    assert run(tmp_path / "a", 2, resume=chosen) == 2
    assert run(tmp_path / "a", 2, resume="auto") == 2  # the later one is forgotten


def test_routes_come_with_a_state_and_go_with_a_restart(tmp_path):
    run(tmp_path / "a", 3, images=1)
    (tmp_path / "a" / "routes.jsonl").write_text('{"batch": 0}\n')
    chosen = str(tmp_path / "a" / "state" / "0000000002.safetensors")
    run(tmp_path / "b", 2, resume=chosen)
    assert (tmp_path / "b" / "routes.jsonl").read_text() == '{"batch": 0}\n'
    run(tmp_path / "c", 0)
    (tmp_path / "c" / "routes.jsonl").write_text('{"batch": 0}\n')
    run(tmp_path / "c", 1, resume="auto")
    assert not (tmp_path / "c" / "routes.jsonl").exists()


def test_the_state_of_another_run_is_refused(tmp_path):
    run(tmp_path, 2, images=1)
    with RunSaver(tmp_path, resume="auto") as saver:
        with pytest.raises(ReservoirError, match=r"config\.method was 'tent', is 'eata'"):
            saver.begin({"config": {"method": "eata"}})
        assert saved(saver) == [1, 2]
    other = write_state(tmp_path / "other.safetensors", {}, {"kind": "expert"})
    with pytest.raises(ReservoirError, match="is not the state of a run"):
        run(tmp_path / "new", 1, resume=str(other))


def test_a_full_disk_does_not_end_a_run(tmp_path, monkeypatch, caplog):
    with RunSaver(tmp_path, images=1) as saver:
        saver.begin(IDENTITY)
        saver.save(0, dict)
        saver.after(1, dict)
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", no_space)
            saver.after(2, dict)
        assert caplog.records[-1].levelno == logging.ERROR
        assert "No space left on device" in caplog.text
        assert "would be resumed after 1 images" in caplog.text
        assert saved(saver) == [0, 1]
        assert list(tmp_path.rglob("*.partial")) == []
        saver.after(3, dict)
        assert saved(saver) == [1, 3]


def test_a_disk_that_is_full_at_the_start_does(tmp_path, monkeypatch):
    with RunSaver(tmp_path) as saver:
        saver.begin(IDENTITY)
        monkeypatch.setattr("os.fsync", no_space)
        with pytest.raises(ReservoirError, match=r"No space left on device\): free some space"):
            saver.save(0, dict)


def no_space(handle):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_is_really_full(tmp_path, caplog):
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no small file system can be mounted here")
    try:
        with RunSaver(tmp_path, images=1) as saver:
            saver.begin(IDENTITY)
            saver.save(0, lambda: "small")
            saver.after(1, lambda: "x" * 300_000)
            assert "No space left on device" in caplog.text
            assert saved(saver) == [0]
            saver.after(2, lambda: "small")
            assert saved(saver) == [0, 2]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_of_a_complete_run_the_last_state_is_kept_unless_it_is_large(tmp_path):
    said = []
    with RunSaver(tmp_path, images=1, report=said.append) as saver:
        saver.begin(IDENTITY)
        for images in range(3):
            saver.save(images, lambda: "x" * 2_000_000)
        saver.finish()
        assert saved(saver) == [2]
        saver.keep_mb = 1.0
        saver.finish()
        assert saved(saver) == []
    assert said == ["the last state has 2 MB, more than keep_mb=1, and was removed"]


def test_options(tmp_path):
    with pytest.raises(ReservoirError, match="--resume continues a run, --overwrite replaces"):
        RunSaver(tmp_path, resume="auto", overwrite=True)
    for wrong in (dict(minutes=0.0), dict(images=0)):
        with pytest.raises(ReservoirError, match=r"(minutes|images) must be .* got 0"):
            RunSaver(tmp_path, **wrong)


def test_the_seed_of_the_run_to_resume(tmp_path):
    assert saved_seed(tmp_path, "auto") is None
    with RunSaver(tmp_path) as saver:
        saver.begin({**IDENTITY, "seed": 5})
        saver.save(0, dict)
    assert saved_seed(tmp_path, "auto") == 5
    assert saved_seed(tmp_path / "elsewhere", str(saver.states.files()[0])) == 5
