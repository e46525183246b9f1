import numpy as np
import pytest

from mmseg_reservoir.check.examine import examine
from mmseg_reservoir.check.layout import Array
from mmseg_reservoir.check.npy import array_fault, npy_content


@pytest.fixture
def content(tmp_path):
    """Content of a file that holds these bytes, or this array."""

    def content(what):
        path = tmp_path / "file.npy"
        path.write_bytes(what) if isinstance(what, bytes) else np.save(path, what)
        return npy_content(path)

    return content


def test_shape_and_type(content):
    assert content(np.zeros((2, 4, 4, 3), np.uint8)) == (None, ((2, 4, 4, 3), "uint8"), None)
    assert content(np.array([3, 1, 1])) == (None, ((3,), "int64"), (1, 3))
    assert content(np.array([0.5]))[1:] == (((1,), "float64"), None)


def test_damage(content, tmp_path):
    np.save(tmp_path / "good.npy", np.arange(10))
    good = (tmp_path / "good.npy").read_bytes()
    assert content(good[:-1])[0].startswith("is truncated")
    assert content(good + b"x")[0] == "is longer than its header says"
    for other in (b"<html>log in</html>", b"PK\x03\x04 a zip file", good[:20]):
        assert "no plain .npy file" in content(other)[0]
    assert "Python objects" in content(np.array([{}], object))[0]


def test_files(tmp_path):
    np.save(tmp_path / "labels.npy", np.array([0, 1, 1]))
    facts = examine(tmp_path / "labels.npy", is_label=False)
    assert (facts.fault, facts.array, facts.values) == (None, ((3,), "int64"), (0, 1))
    assert len(facts.sha256) == 64
    assert facts.shape is None


def test_faults():
    wanted = Array((4,), classes=2)
    assert array_fault(((4,), "uint8"), (0, 1), wanted) is None
    assert array_fault(((4,), "int64"), (0, 1), wanted) is None
    assert array_fault(((4,), "uint8"), (0, 1, 9), wanted) == "3 classes from 0 to 9, not 2"
    assert array_fault(((4,), "float32"), None, wanted) == "float32 (4,), not integers (4,)"
    pixels = Array((2, 3), "uint8")
    assert array_fault(((2, 3), "uint8"), None, pixels) is None
    assert array_fault(((2, 2), "uint8"), None, pixels) == "uint8 (2, 2), not uint8 (2, 3)"
    assert array_fault(((2, 3), "float32"), None, pixels) == "float32 (2, 3), not uint8 (2, 3)"
