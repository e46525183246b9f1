import random

import numpy as np
import torch

from mmseg_reservoir.io.state_files import read_state, write_state
from mmseg_reservoir.runs.generators import load_generators, save_generators, seed_generators


def draw():
    return random.random(), np.random.randn(3).tolist(), torch.rand(3).tolist()


def test_all_generators_go_on_from_a_file(tmp_path):
    np.random.randn()  # numpy keeps a second number of the pair: a part of its state
    path = write_state(tmp_path / "a.safetensors", save_generators(), {})
    expected = draw()
    assert draw() != expected
    load_generators(read_state(path)[0])
    assert draw() == expected


def test_a_seed_is_that_of_all_of_them():
    seed_generators(2**32 + 7)
    first = draw()
    seed_generators(2**32 + 7)
    assert draw() == first
