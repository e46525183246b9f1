import torch
from elsewhere import sent
from small_net import make_method

from mmseg_reservoir.methods import find_method


def test_the_generator_stays_on_the_cpu(stream):
    one, other = (make_method(find_method("cotta"), restore=0.5, seed=seed) for seed in (1, 2))
    for x in stream[:2]:
        one.adapt(x)
    other.load_state_dict(sent(one.state_dict()))
    drawn = [torch.rand(5, generator=method.generator).tolist() for method in (one, other)]
    assert drawn[0] == drawn[1]
