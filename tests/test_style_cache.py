import pytest
import torch
from safetensors.torch import load_file, save_file

from mmseg_reservoir.core.style import StyleEncoder
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.style_cache import (
    cached_weights,
    front,
    origin,
    read_safetensors,
    store,
    tensor_digest,
)


@pytest.fixture(scope="module")
def weights():
    return front(StyleEncoder("seeded").features.state_dict(), "seeded")


def test_the_cache_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cached_weights() == tmp_path / "mmseg_reservoir" / "vgg19_front.safetensors"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cached_weights().parents[1] == tmp_path / "home" / ".cache"


def test_stored_weights_come_back(weights, tmp_path):
    path = store(weights, tmp_path / "new" / "w.safetensors", "a test")
    assert origin(path) == "a test"
    assert tensor_digest(read_safetensors(path)) == tensor_digest(weights)
    assert [p.name for p in path.parent.iterdir()] == ["w.safetensors"]
    assert 1.0e6 < path.stat().st_size < 1.1e6


def test_the_front_of_a_whole_network(weights):
    state = {key: value.half() for key, value in weights.items()}
    state |= {"features.10.weight": torch.zeros(2), "classifier.0.bias": torch.zeros(3)}
    found = front(state, "x")
    assert set(found) == set(weights)
    assert all(value.dtype == torch.float32 for value in found.values())


def test_other_networks_are_refused(weights):
    with pytest.raises(ReservoirError, match=r"x is not a VGG-19: features.0.weight .* nothing"):
        front({}, "x")
    other = {**weights, "features.5.weight": torch.zeros(128, 64, 1, 1)}
    with pytest.raises(ReservoirError, match=r"features.5.weight .* found \(128, 64, 1, 1\)"):
        front(other, "x")
    broken = {**weights, "features.7.bias": torch.full((128,), float("nan"))}
    with pytest.raises(ReservoirError, match=r"damaged: features.7.bias is not finite"):
        front(broken, "x")


def test_changed_weights_are_noticed(weights, tmp_path):
    path = store(weights, tmp_path / "w.safetensors", "a test")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ReservoirError, match="not those that were stored: delete the file"):
        read_safetensors(path)
    with pytest.raises(ReservoirError, match="not those that were stored"):
        StyleEncoder(str(path))


def test_a_file_of_somebody_else_has_no_origin(weights, tmp_path):
    path = tmp_path / "w.safetensors"
    save_file(weights, path)
    assert origin(path) is None
    assert set(read_safetensors(path)) == set(load_file(path))
    path.write_bytes(b"no weights")
    assert origin(path) is None


def test_the_digest_depends_on_names_and_values(weights):
    renamed = {key.replace("7", "8"): value for key, value in weights.items()}
    moved = {**weights, "features.0.bias": weights["features.0.bias"] + 1}
    assert len({tensor_digest(w) for w in (weights, renamed, moved)}) == 3
    assert tensor_digest(dict(reversed(weights.items()))) == tensor_digest(weights)
