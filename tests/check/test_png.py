import pytest

from mmseg_reservoir.check.png import png_fault


@pytest.fixture
def data(small):
    return small.image().read_bytes()


def test_a_whole_file_has_no_fault(data):
    assert png_fault(data) is None
    assert png_fault(data + b"trailing bytes do no harm") is None


def test_every_truncation_is_found(data):
    assert {png_fault(data[:length]) for length in range(len(data))} == {"is truncated"}


def test_one_flipped_bit_is_found(data):
    at = data.index(b"IDAT") + 6
    damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    assert "wrong checksum" in png_fault(damaged)


def test_a_page_saved_as_png_is_found():
    assert png_fault(b"<html>please log in</html>") == "is not a PNG file"
