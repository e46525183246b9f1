"""Weights are read from any file that holds them, and no code in it is run."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.checkpoints import find_weights, read_checkpoint, read_weights
from mmseg_reservoir.io.files import write_tensors

WEIGHTS = {"a.weight": torch.ones(2), "a.bias": torch.zeros(1)}


@pytest.mark.parametrize("place", [None, "state_dict", "model", "model_state_dict"])
@pytest.mark.parametrize("zipped", [True, False])
def test_weights_are_found_wherever_they_are(tmp_path, place, zipped):
    checkpoint = {place: WEIGHTS, "epoch": 3} if place else {**WEIGHTS, "epoch": 3}
    torch.save(checkpoint, tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    assert read_checkpoint(tmp_path / "a.pt")["epoch"] == 3
    found = read_weights(tmp_path / "a.pt")
    assert set(found) == set(WEIGHTS)
    assert torch.equal(found["a.weight"], torch.ones(2))


def test_safetensors(tmp_path):
    path = write_tensors(tmp_path / "a.safetensors", WEIGHTS, {})
    assert set(read_checkpoint(path)) == {"state_dict"}
    assert read_weights(str(path)).keys() == WEIGHTS.keys()
    weights = read_checkpoint(path, torch.device("meta"))["state_dict"]
    assert weights["a.bias"].device.type == "meta"


def test_the_home_folder_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    torch.save(WEIGHTS, tmp_path / "a.pth")
    assert read_weights("~/a.pth").keys() == WEIGHTS.keys()


@pytest.mark.parametrize("checkpoint", [{}, {"epoch": 3}, {"state_dict": {}, "a": torch.ones(1)}])
def test_what_holds_no_weights_is_refused(tmp_path, checkpoint):
    torch.save(checkpoint, tmp_path / "a.pth")
    with pytest.raises(
        ReservoirError, match=r"a\.pth holds no weights, .* under state_dict, model"
    ):
        read_weights(tmp_path / "a.pth")
    with pytest.raises(ReservoirError, match="the checkpoint holds no weights"):
        find_weights(checkpoint)


@pytest.mark.parametrize("core", ["core", "_core"])
def test_arrays_saved_with_numpy_1_and_2_load(tmp_path, core):
    path = tmp_path / "array.pth"
    # torch's old format is a bare pickle, in which names can be exchanged.
    torch.save({"log": np.arange(3.0)}, path, _use_new_zipfile_serialization=False)
    name = np.empty(0).__reduce__()[0].__module__.encode()
    path.write_bytes(path.read_bytes().replace(name, f"numpy.{core}.multiarray".encode()))
    assert read_checkpoint(path)["log"].tolist() == [0, 1, 2]


class Attack:
    """Pickles as a call of any function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def test_code_in_a_checkpoint_is_not_run(tmp_path):
    path, trace = tmp_path / "evil.pth", tmp_path / "trace"
    attack = {"state_dict": Attack(os.mkdir, str(trace))}
    torch.save(attack, path)
    with pytest.raises(ReservoirError, match=r"could run code .*mkdir"):
        read_checkpoint(path)
    path.write_bytes(pickle.dumps(attack, protocol=2))
    with pytest.raises(ReservoirError, match="could run code"):
        read_checkpoint(path)
    assert not trace.exists()


@pytest.mark.parametrize("target", [(HistoryBuffer, "__init__"), (np.ndarray, "mean")])
def test_getattr_reaches_nothing_but_the_statistics(tmp_path, target):
    path = tmp_path / "evil.pth"
    torch.save({"state_dict": Attack(getattr, *target)}, path)
    with pytest.raises(ReservoirError, match=r"getattr of .* is not allowed"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a checkpoint"),
        (b"<!DOCTYPE html><html>404</html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1", "LFS pointer"),
        (b"PK\x03\x04 the download stopped here", "download it again"),
        (b"\x80\x02 the download stopped here", "damaged"),
    ],
)
def test_what_is_no_checkpoint_is_reported(tmp_path, content, message):
    path = tmp_path / "broken.pth"
    path.write_bytes(content)
    with pytest.raises(ReservoirError, match=message) as error:
        read_checkpoint(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_truncated_checkpoint_is_reported(tmp_path, part):
    path = tmp_path / "half.pth"
    torch.save({"state_dict": {"a": torch.zeros(999)}}, path)
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(ReservoirError, match="download it again"):
        read_checkpoint(path)


def test_broken_safetensors_file_is_reported(tmp_path):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(b"<html>")
    with pytest.raises(ReservoirError, match=r"cannot be read as a \.safetensors file"):
        read_checkpoint(path)


@pytest.mark.parametrize("name", ["none.pth", "none.safetensors", "."])
def test_missing_file_is_reported(tmp_path, name):
    with pytest.raises(ReservoirError, match="there is no checkpoint file"):
        read_checkpoint(tmp_path / name)


def test_anything_but_a_dictionary_is_refused(tmp_path):
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ReservoirError, match="holds a list"):
        read_checkpoint(tmp_path / "list.pth")


def test_mmengine_is_not_needed(tmp_path):
    """In an interpreter of its own, in which it cannot be imported."""
    torch.save(WEIGHTS, tmp_path / "a.pth")
    code = (
        "import sys; sys.modules['mmengine'] = None\n"
        "from mmseg_reservoir.io.checkpoints import read_weights\n"
        "print(*read_weights(sys.argv[1]))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "a.pth")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.split() == list(WEIGHTS)
