import torch
from torch.nn.functional import cross_entropy

from mmseg_reservoir.becotta import DomainDiscriminator


def test_takes_images_of_any_size():
    for size in ((16, 24), (64, 33)):
        assert DomainDiscriminator(5)(torch.rand(2, 3, *size)).shape == (2, 5)


def test_learns_to_tell_bright_from_dark_and_constant_images_are_no_problem():
    generator = torch.Generator().manual_seed(0)
    model = DomainDiscriminator(2, seed=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    labels = torch.arange(8) % 2
    levels = labels.view(-1, 1, 1, 1) * 2.0 - 1
    for _ in range(30):
        images = levels + 0.2 * torch.randn(8, 3, 16, 16, generator=generator)
        optimizer.zero_grad()
        cross_entropy(model(images), labels).backward()
        optimizer.step()
    assert torch.equal(model(levels.expand(8, 3, 20, 28)).argmax(1), labels)
    cross_entropy(model(torch.zeros(1, 3, 16, 16)), labels[:1]).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


def test_the_seed_alone_decides_the_initial_weights():
    one = DomainDiscriminator(3, seed=2)
    torch.rand(7)
    for a, b in zip(one.parameters(), DomainDiscriminator(3, seed=2).parameters(), strict=True):
        assert torch.equal(a, b)
