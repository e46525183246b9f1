import pytest
import torch
from small_net import make_method, make_net
from torch.nn import functional as F

from mmseg_reservoir.params import norm_affine


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_a_few_plain_lines(stream, dtype):
    method = make_method(lr=0.01, dtype=dtype)
    net = make_net(dtype)
    net.requires_grad_(False)
    parameters = [p.requires_grad_() for p in norm_affine(net).values()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for x in stream:
        x = x.to(dtype)
        logits = net(x)
        p = F.softmax(logits, dim=1)
        loss = -(p * p.log()).sum(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(method.adapt(x), logits.detach())
    flat = torch.cat([p.detach().reshape(-1) for p in parameters])
    torch.testing.assert_close(method.space.snapshot(), flat, rtol=1e-4, atol=1e-5)


def test_lowers_the_entropy(stream):
    method = make_method(lr=0.1)
    before = method.loss(stream[0])[1].item()
    for _ in range(20):
        method.adapt(stream[0])
    assert method.loss(stream[0])[1].item() < 0.8 * before
