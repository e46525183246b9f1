import hashlib

import numpy as np
import pytest
from PIL import Image

from mmseg_reservoir.datasets.check.file_facts import examine, glance


def test_facts_of_an_image(small):
    data = small.image().read_bytes()
    facts = examine(small.image(), is_label=False)
    assert (facts.size, facts.fault, facts.shape, facts.values) == (len(data), None, (4, 6), None)
    assert facts.sha256 == hashlib.sha256(data).hexdigest()


def test_values_of_a_label(small):
    small.write(small.label(), [[0, 18, 255], [7, 7, 7]])
    facts = examine(small.label(), is_label=True)
    assert (facts.shape, facts.values) == ((2, 3), (0, 7, 18, 255))


def test_a_palette_is_read_as_indices(tmp_path):
    image = Image.fromarray(np.array([[0, 3]], np.uint8), mode=None).convert("P")
    image.putpalette([10, 20, 30] * 256)
    image.save(tmp_path / "label.png")
    assert examine(tmp_path / "label.png", is_label=True).values == (0, 3)


@pytest.fixture
def fault(tmp_path):
    """Of a PNG file that holds these bytes."""

    def fault(data):
        path = tmp_path / "image.png"
        path.write_bytes(data)
        return examine(path, is_label=False).fault

    return fault


def test_every_truncation_of_a_png_is_found(small, fault):
    data = small.image().read_bytes()
    assert fault(data) is None
    assert fault(data + b"trailing bytes do no harm") is None
    # The last four bytes are the checksum of the end mark: without them nothing is lost.
    faults = [fault(data[:length]) for length in range(1, len(data) - 4)]
    assert all(text.startswith(("is truncated", "is no .png file")) for text in faults)


def test_one_flipped_bit_of_a_png_is_found(small, fault):
    data = small.image().read_bytes()
    for at in range(data.index(b"IDAT") + 4, data.index(b"IEND") - 4):
        damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert "damaged" in fault(damaged), at


def test_what_only_has_the_name_of_a_png_is_found(fault, tmp_path):
    assert fault(b"<html>please log in</html>") == "is no .png file"
    Image.new("L", (8, 8)).save(tmp_path / "image.jpg")
    assert fault((tmp_path / "image.jpg").read_bytes()) == "is no .png file"


def test_a_truncated_jpeg_is_found(tmp_path):
    path = tmp_path / "image.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)).save(path)
    assert examine(path, is_label=False).fault is None
    path.write_bytes(path.read_bytes()[:-300])
    assert "truncated" in examine(path, is_label=False).fault


def test_a_link_to_nowhere_cannot_be_opened(tmp_path):
    link = tmp_path / "image.png"
    link.symlink_to(tmp_path / "gone.png")
    for facts in (glance(link), examine(link, is_label=False)):
        assert facts.size is None
        assert facts.fault == "cannot be opened: No such file or directory"


def test_glance_reads_nothing(small):
    small.image().write_bytes(b"no picture")
    facts = glance(small.image())
    assert (facts.size, facts.fault, facts.sha256) == (10, None, None)


@pytest.fixture
def content(tmp_path):
    """Content of a file that holds these bytes, or this array."""

    def content(what):
        path = tmp_path / "file.npy"
        path.write_bytes(what) if isinstance(what, bytes) else np.save(path, what)
        facts = examine(path, is_label=False)
        return facts.fault, facts.array, facts.values

    return content


def test_shape_and_type_of_an_array(content):
    assert content(np.zeros((2, 4, 4, 3), np.uint8)) == (None, ((2, 4, 4, 3), "uint8"), None)
    assert content(np.array([3, 1, 1])) == (None, ((3,), "int64"), (1, 3))
    assert content(np.array([0.5]))[1:] == (((1,), "float64"), None)


def test_damaged_arrays(content, tmp_path):
    np.save(tmp_path / "good.npy", np.arange(10))
    good = (tmp_path / "good.npy").read_bytes()
    assert content(good[:-1])[0].startswith("is truncated")
    assert content(good + b"x")[0] == "is longer than its header declares"
    for other in (b"<html>log in</html>", b"PK\x03\x04 a zip file", good[:20]):
        assert "no plain .npy file" in content(other)[0]
    assert "Python objects" in content(np.array([{}], object))[0]


def test_all_facts_of_an_array(tmp_path):
    np.save(tmp_path / "labels.npy", np.array([0, 1, 1]))
    facts = examine(tmp_path / "labels.npy", is_label=False)
    assert (facts.fault, facts.array, facts.values) == (None, ((3,), "int64"), (0, 1))
    assert len(facts.sha256) == 64
    assert facts.shape is None
