import torch
from small_net import make_method, make_net

from mmseg_reservoir.methods import Source
from mmseg_reservoir.spaces import ParamSpace, norm_affine


def test_predicts_and_never_changes(stream):
    method = make_method(Source)
    before = method.space.snapshot()
    for x in stream:
        assert torch.equal(method.adapt(x), method.predict(x))
    assert torch.equal(method.space.snapshot(), before)
    assert method.counts == {"updates": 0, "skipped": len(stream), "not_finite": 0}


def test_needs_no_optimizer():
    net = make_net()
    assert Source(net, ParamSpace(net, norm_affine(net))).domain_state() == {"optimizer": {}}
