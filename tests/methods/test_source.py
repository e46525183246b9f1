import torch
from small_net import make_classifier, make_method, make_net
from torch import nn

from mmseg_reservoir.methods import Norm, Source
from mmseg_reservoir.params import ParamSpace, norm_affine
from mmseg_reservoir.registry import find


def test_predicts_and_never_changes(stream):
    method = make_method(Source)
    before = method.space.snapshot()
    for x in stream:
        assert torch.equal(method.adapt(x), method.predict(x))
    assert torch.equal(method.space.snapshot(), before)
    assert method.counts == {
        "updates": 0,
        "skipped": len(stream),
        "not_finite": 0,
        "rollbacks": 0,
        "restarts": 0,
    }


def test_needs_no_optimizer():
    net = make_net()
    assert Source(net, ParamSpace(net, norm_affine(net))).domain_state()["optimizer"] == {}


def test_norm_is_the_source_model_that_normalises_by_the_batch(stream):
    method, net = make_method(Norm, supports="images"), make_classifier()
    net[4].train()  # BatchNorm by the batch, as torch does it in training
    for x in stream:
        with torch.no_grad():
            torch.testing.assert_close(method.adapt(x), net(x))
    assert torch.equal(method.space.values, method.source)
    assert method.counts == {
        "updates": 0,
        "skipped": len(stream),
        "not_finite": 0,
        "rollbacks": 0,
        "restarts": 0,
    }


def test_norm_does_so_also_where_the_task_goes_by_the_source(stream):
    norm, source = make_method(Norm), make_method(Source)
    assert not torch.allclose(norm.predict(stream[0]), source.predict(stream[0]))


def test_norm_needs_no_optimizer_nor_batch_normalisation():
    net = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    method = find("method", "norm")(net, ParamSpace(net, norm_affine(net)))
    x = torch.randn(3, 4)
    assert torch.equal(method.adapt(x), net(x))
