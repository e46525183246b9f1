import logging

import pytest

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io import state_files
from mmseg_reservoir.runs.state_folder import StateFolder


@pytest.fixture
def states(tmp_path):
    return StateFolder(tmp_path / "state")


def names(states):
    return sorted(path.name for path in states.folder.iterdir())


def test_the_newest_two_are_kept(states):
    assert states.newest() is None
    for images in (0, 9, 10, 100):
        path = states.save(images, {"images": images}, {"a": images})
    assert names(states) == ["0000000010.safetensors", "0000000100.safetensors", "newest"]
    assert states.newest() == (path, {"images": 100}, {"a": 100})


def test_a_state_without_the_marker_does_not_count(states, monkeypatch):
    states.save(1, "old", {})

    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mmseg_reservoir.runs.state_folder.write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            states.save(2, "new", {})
    assert "0000000002.safetensors" in names(states)
    assert states.newest()[1] == "old"
    states.save(2, "again", {})
    assert states.newest()[1] == "again"


@pytest.mark.parametrize("damage", ["truncated", "flipped", "emptied"])
def test_a_damaged_state_is_passed_over_for_the_one_before(states, damage, caplog):
    before, damaged = states.save(1, "old", {}), states.save(2, "new", {})
    whole = damaged.read_bytes()
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    damaged.write_bytes({"truncated": whole[:-1], "flipped": flipped, "emptied": b""}[damage])
    with caplog.at_level(logging.WARNING):
        assert states.newest()[:2] == (before, "old")
    assert str(damaged) in caplog.text
    assert "skipped" in caplog.text
    before.write_bytes(b"")
    with pytest.raises(ReservoirError, match=r"no state in .* can be read .*--overwrite"):
        states.newest()


@pytest.mark.parametrize("schema", [0, 1])
def test_another_schema_is_not_passed_over(states, schema, monkeypatch):
    states.save(1, "old", {})
    with monkeypatch.context() as patch:
        patch.setattr(state_files, "SCHEMA", schema)
        states.save(2, "new", {})
    with pytest.raises(ReservoirError, match=f"with schema {schema} of saved states"):
        states.newest()


def test_going_back_forgets_what_came_after(states):
    before, after = states.save(1, "old", {}), states.save(2, "new", {})
    states.go_back_to(before)
    assert not after.exists()
    assert states.newest()[:2] == (before, "old")
    states.clear()
    assert names(states) == []
