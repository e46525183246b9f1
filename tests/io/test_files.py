import hashlib
import os

import pytest
import torch

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.files import (
    atomic_write,
    cache_folder,
    digest,
    display_path,
    file_digest,
    make_work_dir,
    read_tensors,
    shipped,
    write_tensors,
    write_text,
)


def test_the_cache_is_where_the_user_wants_it(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "mmseg_reservoir"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert str(cache_folder()) == "/home/someone/.cache/mmseg_reservoir"


def test_shipped_files():
    assert shipped("configs/_base_").is_dir()
    with pytest.raises(ReservoirError, match=r"nothing\.py is missing, .* install mmseg"):
        shipped("configs/nothing.py")


def test_text_is_written_and_replaced(tmp_path, monkeypatch):
    path = tmp_path / "new" / "a.json"
    assert write_text(path, "ö") == path
    write_text(path, "second")
    assert path.read_text(encoding="utf-8") == "second"
    assert list(path.parent.iterdir()) == [path]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert write_text("~/b.txt", "") == tmp_path / "b.txt"


@pytest.mark.parametrize("error", [RuntimeError("disk full"), KeyboardInterrupt()])
def test_all_or_nothing(tmp_path, error):
    def fail_half_way(partial):
        partial.write_text("half")
        raise error

    path = tmp_path / "a.txt"
    with pytest.raises(type(error)):
        atomic_write(path, fail_half_way)
    assert list(tmp_path.iterdir()) == []
    path.write_text("old")
    with pytest.raises(type(error)):
        atomic_write(path, fail_half_way)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path):
    path = write_text(tmp_path / "a.txt", "old")
    seen = []
    atomic_write(path, lambda partial: (partial.write_text("new"), seen.append(path.read_text())))
    assert seen == ["old"]
    assert path.read_text() == "new"


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    path, synced = tmp_path / "a.txt", []
    monkeypatch.setattr("os.fsync", lambda handle: synced.append((_inode(handle), path.exists())))
    write_text(path, "text")
    assert synced == [(_inode(path), False), (_inode(tmp_path), True)]


def _inode(file):
    return os.stat(file if not hasattr(file, "fileno") else file.fileno()).st_ino


def test_tensors_come_back(tmp_path):
    weight = torch.nn.Parameter(torch.arange(6.0).view(2, 3))
    tensors = {"weight": weight, "turned": weight.T, "count": torch.tensor(3)}
    path = write_tensors(tmp_path / "a.safetensors", tensors, {"format": "1"})
    found, metadata = read_tensors(path)
    assert metadata == {"format": "1"}
    assert set(found) == set(tensors)
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    assert read_tensors(write_tensors(path, {}, {})) == ({}, {})


def test_damaged_tensors_are_explained(tmp_path):
    path = write_tensors(tmp_path / "a.safetensors", {"a": torch.zeros(9)}, {})
    whole = path.read_bytes()
    for damaged in (b"", b"<html>", whole[:-1], whole[:20]):
        path.write_bytes(damaged)
        message = r"a\.safetensors cannot be read as a \.safetensors file \(.+\): get it, or make"
        with pytest.raises(ReservoirError, match=message):
            read_tensors(path)
    with pytest.raises(ReservoirError, match=r"cannot be read .*: calibrate again"):
        read_tensors(tmp_path / "none.safetensors", "calibrate again")


def test_digest(tmp_path):
    data = bytes(range(256)) * 5000  # more than one piece
    (tmp_path / "a").write_bytes(data)
    expected = hashlib.sha256(data).hexdigest()
    assert file_digest(tmp_path / "a") == digest([data]) == expected
    assert digest([data[:9], memoryview(data)[9:]]) == expected
    assert digest("ä") == hashlib.sha256("ä".encode()).hexdigest()


def test_a_work_directory_can_be_written_to(tmp_path):
    folder = make_work_dir(tmp_path / "new" / "run")
    assert list(folder.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(ReservoirError, match=r"cannot write to the work directory .*--work-dir"):
        make_work_dir(tmp_path / "file" / "run")


def test_a_relative_path_is_told_with_what_it_is_relative_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert display_path("data/acdc") == f"data/acdc (seen from {tmp_path})"
    assert display_path(tmp_path) == str(tmp_path)
