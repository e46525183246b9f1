import pytest
import torch
from small_vit import make_vit
from torch import nn
from torch.nn.modules import module as torch_module

from mmseg_reservoir.methods.parts.stem import gaussian_divergence, stem_statistics

X = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def test_of_a_transformer_it_is_the_patch_embedding():
    net = make_vit()
    y = net.patch_embed(X)
    found = stem_statistics(net, X)
    torch.testing.assert_close(found[0], y.mean(dim=(0, 2, 3)))
    torch.testing.assert_close(found[1], y.var(dim=(0, 2, 3), correction=0))


def test_the_rest_of_the_model_is_not_run_and_no_hook_stays():
    class Bomb(nn.Module):
        def forward(self, x):
            raise AssertionError("not reached")

    net = nn.Sequential(nn.Identity(), nn.Conv2d(3, 4, 3), Bomb())
    assert stem_statistics(lambda x: net(x), X).shape == (2, 4)
    assert not torch_module._global_forward_hooks
    with pytest.raises(AssertionError, match="not reached"):
        net(X)
    with pytest.raises(AssertionError):
        stem_statistics(Bomb(), X)
    assert not torch_module._global_forward_hooks


def test_without_a_convolution_the_inputs_are_taken():
    inputs = X.mean(dim=(2, 3))
    found = stem_statistics(nn.Linear(3, 2), inputs)
    torch.testing.assert_close(found[0], inputs.mean(dim=0))
    torch.testing.assert_close(stem_statistics(nn.Identity(), X)[0], X.mean(dim=(0, 2, 3)))


def test_divergence_is_that_of_torch_distributions():
    mean, var = torch.randn(2, 5), torch.rand(2, 5) + 0.1
    p, q = (torch.distributions.Normal(mean[i], var[i].sqrt()) for i in range(2))
    kl = torch.distributions.kl_divergence
    one, other = (torch.stack([mean[i], var[i]]) for i in range(2))
    expected = (kl(p, q) + kl(q, p)).mean()
    torch.testing.assert_close(gaussian_divergence(one, other), expected)
    torch.testing.assert_close(gaussian_divergence(torch.stack([one, other]), other)[0], expected)
    assert gaussian_divergence(one, one) == pytest.approx(0, abs=1e-6)


def test_a_covered_lens_has_a_finite_divergence():
    flat = stem_statistics(nn.Identity(), torch.zeros(2, 3, 4, 4))
    assert torch.isfinite(gaussian_divergence(flat, stem_statistics(nn.Identity(), X)))
