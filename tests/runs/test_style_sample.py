import numpy as np
import pytest
import torch

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.runs.style_sample import FILE, StyleSample, read_styles


def test_few_styles_are_all_kept_in_the_order_of_the_stream(tmp_path):
    sample = StyleSample(room=5)
    for route in range(4):
        sample.add(2 * route, torch.full((3,), float(route)))
    sample.write(tmp_path)
    vectors, routes = read_styles(tmp_path)
    assert routes.tolist() == [0, 2, 4, 6]
    assert vectors.tolist() == [[i] * 3 for i in range(4)]


def test_many_styles_are_sampled_evenly_over_the_stream(tmp_path):
    sample = StyleSample(room=200)
    for route in range(4000):
        sample.add(route, torch.tensor([float(route % 7)]))
    assert len(sample) == 200
    sample.write(tmp_path)
    vectors, routes = read_styles(tmp_path)
    assert (np.diff(routes) > 0).all()
    assert np.array_equal(vectors[:, 0], routes % 7)
    quarters = np.bincount(routes // 1000, minlength=4)
    assert quarters.min() > 30  # 50 are expected


def test_an_encoder_may_reuse_its_memory(tmp_path):
    sample, memory = StyleSample(), torch.zeros(2)
    for value in (1.0, 2.0):
        sample.add(int(value), memory.fill_(value))
    sample.write(tmp_path)
    assert read_styles(tmp_path).vectors[:, 0].tolist() == [1, 2]


def test_no_styles_no_file(tmp_path):
    StyleSample().write(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert read_styles(tmp_path) is None
    (tmp_path / FILE).write_bytes(b"broken")
    with pytest.raises(ReservoirError, match=r"styles\.safetensors cannot be read"):
        read_styles(tmp_path)
