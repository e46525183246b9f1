import contextlib
import hashlib
import json
import math
import struct

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from nested import same
from torch import Tensor

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io import state_files
from mmseg_reservoir.io.files import write_tensors
from mmseg_reservoir.io.state_files import read_state, write_state

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool)

tensors = st.builds(
    lambda shape, dtype, value: torch.full(shape, value).to(dtype),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from(DTYPES),
    st.integers(0, 1),
)
plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
keys = st.one_of(plain.filter(lambda key: key == key), st.tuples(st.integers(), st.text()))
trees = st.recursive(
    st.one_of(plain, tensors),
    lambda part: st.one_of(
        st.lists(part, max_size=3),
        st.tuples(part, part),
        st.dictionaries(keys, part, max_size=3),
    ),
    max_leaves=12,
)


@given(state=trees, header=st.dictionaries(st.text(), st.one_of(st.none(), st.text())))
def test_any_tree_comes_back(tmp_path, state, header):
    path = write_state(tmp_path / "state.safetensors", state, header)
    found, said = read_state(path)
    assert same(found, state)
    assert said == header
    assert list(tmp_path.iterdir()) == [path]


def test_what_needs_care_comes_back(tmp_path):
    state = {
        "nan": [math.nan, math.inf, -math.inf, -0.0],
        1: {None: (1, (2.0, [])), (3, "a"): True},
        "large": 1 << 127,
        "{}": {"tensor": "a", "sha256": "0" * 64},
        "\udc80": '"sha256":"' + "0" * 64,
    }
    found, _ = read_state(write_state(tmp_path / "a.safetensors", state, {"sha256": "0" * 64}))
    assert same(found, state)


def test_the_text_is_strict_json(tmp_path):
    path = write_state(tmp_path / "a.safetensors", {"a": math.nan, "b": math.inf}, {})

    def refuse(constant):
        raise AssertionError(constant)

    about = read_about(path.read_bytes())
    for name in ("tree", "header"):
        json.loads(about[name], parse_constant=refuse)
    with pytest.raises(ReservoirError, match="header of a state must be plain JSON"):
        write_state(path, {}, {"score": math.nan})
    with pytest.raises(ReservoirError, match="header of a state must be plain JSON"):
        write_state(path, {}, {"score": torch.zeros(1)})


def test_shared_memory_stays_shared(tmp_path):
    moments, flat = torch.arange(3.0), torch.arange(6.0)
    state = {
        "a": {"moments": moments},
        "b": [moments, moments.detach()],
        "copy": moments.clone(),
        "overlap": (flat[:4], flat[2:], flat[::2], flat.view(2, 3).T),
        "none": [torch.empty(0), torch.empty(0)],
    }
    path = write_state(tmp_path / "a.safetensors", state, {})
    found, _ = read_state(path)
    assert same(found, state)
    assert found["a"]["moments"] is found["b"][0] is found["b"][1]
    found["a"]["moments"].add_(1)
    assert torch.equal(found["copy"], moments)
    assert found["none"][0] is not found["none"][1]


def test_parameters_are_written_as_values(tmp_path):
    weight = torch.nn.Parameter(torch.ones(2))
    found, _ = read_state(write_state(tmp_path / "a.safetensors", {"w": weight}, {}))
    assert type(found["w"]) is Tensor
    assert not found["w"].requires_grad
    found["w"].add_(1)  # writable
    assert weight.tolist() == [1, 1]


@pytest.mark.parametrize("value", [{1, 2}, object(), 1j, b"bytes", torch.float32, range(3)])
def test_what_a_state_cannot_hold_is_named(tmp_path, value):
    with pytest.raises(ReservoirError, match=rf"the {type(value).__name__} at router\.0\.thing: "):
        write_state(tmp_path / "a.safetensors", {"router": [{"thing": value}]}, {})
    assert not list(tmp_path.iterdir())


def test_numpy_numbers_are_refused(tmp_path):
    value = torch.ones(1, dtype=torch.float64).numpy()[0]
    assert isinstance(value, float)
    with pytest.raises(ReservoirError, match="the float64 at its root"):
        write_state(tmp_path / "a.safetensors", value, {})


@given(content=st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(tmp_path, content):
    path = tmp_path / "a.safetensors"
    for data in (content, struct.pack("<Q", len(content)) + content):
        path.write_bytes(data)
        with pytest.raises(ReservoirError, match=r"--resume PATH.*--overwrite"):
            read_state(path)


json_values = st.recursive(
    plain.filter(lambda value: value == value and value not in (math.inf, -math.inf)),
    lambda part: st.one_of(st.lists(part), st.dictionaries(st.text(), part)),
    max_leaves=6,
)
about_names = ("format", "schema", "version", "sha256", "header", "tree")


@given(about=st.one_of(json_values, st.fixed_dictionaries(dict.fromkeys(about_names, json_values))))
def test_arbitrary_metadata_is_refused(tmp_path, about):
    start = json.dumps({"__metadata__": about}, separators=(",", ":")).encode()
    path = tmp_path / "a.safetensors"
    path.write_bytes(struct.pack("<Q", len(start)) + start)
    with pytest.raises(ReservoirError, match="--overwrite"):
        read_state(path)


@given(tree=json_values)
def test_arbitrary_trees_with_a_right_digest_are_read_or_refused(tmp_path, tree):
    path = tmp_path / "a.safetensors"
    path.write_bytes(forge(tree=json.dumps(tree)))
    with contextlib.suppress(ReservoirError):  # and nothing else
        read_state(path)


def test_deep_trees_end_in_a_message(tmp_path):
    path = tmp_path / "a.safetensors"
    deep = "[" * 100_000 + "]" * 100_000
    path.write_bytes(forge(tree=deep))
    with pytest.raises(ReservoirError, match="not arranged as a state"):
        read_state(path)
    path.write_bytes(struct.pack("<Q", len(deep)) + deep.encode())
    with pytest.raises(ReservoirError, match="not a saved state"):
        read_state(path)


def test_every_flipped_byte_is_found(tmp_path):
    path = write_state(tmp_path / "a.safetensors", {"a": torch.arange(5.0), "b": 1}, {"c": "d"})
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in (0, 5):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
            with pytest.raises(ReservoirError, match="--overwrite"):
                read_state(path)


def test_every_truncation_is_found(tmp_path):
    path = write_state(tmp_path / "a.safetensors", {"a": torch.arange(5.0), "b": 1}, {"c": "d"})
    whole = path.read_bytes()
    for data in [*(whole[:end] for end in range(len(whole))), whole + b"\0"]:
        path.write_bytes(data)
        with pytest.raises(ReservoirError, match="--overwrite"):
            read_state(path)


@pytest.mark.parametrize("schema", [0, 1])
def test_another_schema_is_refused(tmp_path, monkeypatch, schema):
    path = tmp_path / "a.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(state_files, "SCHEMA", schema)
        patch.setattr(state_files, "__version__", "0.0.1")
        write_state(path, {"a": torch.zeros(3)}, {})
        read_state(path)
    expected = rf"by mmseg_reservoir 0\.0\.1 with schema {schema} .* this version reads schema 2"
    with pytest.raises(ReservoirError, match=expected):
        read_state(path)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ReservoirError, match="No such file"):
        read_state(tmp_path / "missing.safetensors")
    with pytest.raises(ReservoirError, match="Is a directory"):
        read_state(tmp_path)
    path = write_tensors(tmp_path / "w.safetensors", {"w": torch.zeros(2)}, {"format": "pt"})
    with pytest.raises(ReservoirError, match="not a saved state at all"):
        read_state(path)


def read_about(data):
    (length,) = struct.unpack_from("<Q", data)
    return json.loads(data[8 : 8 + length])["__metadata__"]


def forge(**changes):
    """A file whose digest is right, whatever its texts are."""
    about = {"format": "mmseg_reservoir.state", "schema": "2", "version": "1", "header": "{}"}
    about |= {"tree": "null", "sha256": "0" * 64, **changes}
    start = json.dumps({"__metadata__": about}, separators=(",", ":")).encode()
    data = struct.pack("<Q", len(start)) + start
    digest = hashlib.sha256(data).hexdigest().encode()
    return data.replace(b'"sha256":"' + b"0" * 64, b'"sha256":"' + digest)
