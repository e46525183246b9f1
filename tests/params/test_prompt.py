import copy
import math

import pytest
import torch
from small_vit import make_vit
from torch import nn

from mmseg_reservoir.config.schema import pick
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.params.prompt import PromptSpace, PromptTokens, prompt_space

X = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def by_hand(net, prompts, images):
    """The forward pass of Eq. 4 and 5, with the prompts as they should be."""
    x = net.tokens(images)
    first = 0 if net.cls_token is None else 1
    x = torch.cat([x[:, :first], prompts.expand(len(x), -1, -1), x[:, first:]], dim=1)
    for block in net.blocks:
        x = block(x)
    x = net.norm(x)
    if net.cls_token is not None:
        return net.head(x[:, 0]), x[:, 0]
    pooled = x[:, len(prompts) :].mean(dim=1)
    return net.head(pooled), pooled


@pytest.mark.parametrize("pool", ["token", "mean"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@torch.no_grad()
def test_the_blocks_see_the_prompts_and_the_classifier_does_not(pool, dtype):
    net, images = make_vit(pool, dtype), X.to(dtype)
    space = prompt_space(net, count=2)
    prompts = space.snapshot().view(2, 12)
    plain = make_vit(pool, dtype)
    logits, features = by_hand(plain, prompts, images)
    found, seen = space.features(net, images)
    assert found.dtype == dtype
    torch.testing.assert_close(found, logits)
    torch.testing.assert_close(seen, features)
    assert not torch.allclose(found, plain(images), atol=1e-3)
    with space.hidden():
        assert torch.equal(net(images), plain(images))
    torch.testing.assert_close(net(images), logits)


def test_only_the_prompts_adapt_and_the_gradient_reaches_all_of_them():
    net = make_vit()
    space = prompt_space(net, count=4)
    assert [n for n, p in net.named_parameters() if p.requires_grad] == ["prompts.tokens"]
    assert space.names == ["prompts.tokens"]
    assert len(space) == 4 * 12
    net(X).square().sum().backward()
    assert (space.values.grad.view(4, 12).abs().sum(dim=1) > 0).all()


@torch.no_grad()
def test_the_initial_prompts_stand_for_the_source_model():
    net, plain = make_vit(), make_vit()
    space = prompt_space(net)
    initial = space.snapshot()
    with space.at(initial):
        assert torch.equal(net(X), plain(X))
    space.load(initial + 1)
    with space.at(initial):
        assert torch.equal(net(X), plain(X))
    with space.at(initial + 2):
        other = net(X)
    torch.testing.assert_close(other, by_hand(plain, (initial + 2).view(8, 12), X)[0])
    assert torch.equal(space.values, initial + 1)


@torch.no_grad()
def test_an_ensemble_is_the_average_of_the_prompts():
    net = make_vit()
    space = prompt_space(net, count=2)
    experts = torch.randn(3, len(space))
    weights = torch.tensor([0.2, 0.3, 0.5])
    with space.ensembled(experts, weights):
        found = net(X)
    mean = (weights[:, None] * experts).sum(dim=0).view(2, 12)
    torch.testing.assert_close(found, by_hand(make_vit(), mean, X)[0])


def test_the_seed_alone_decides_the_start_and_no_random_state_is_touched():
    seeds = {1: make_vit(), 2: make_vit()}
    twin = make_vit()
    before = torch.random.get_rng_state()
    one, other = (prompt_space(net, seed=seed).snapshot() for seed, net in seeds.items())
    same = prompt_space(twin, seed=1).snapshot()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    limit = math.sqrt(6 / (3 * 4 * 4 + 12))  # Xavier: a patch has 3 x 4 x 4 values, a token 12
    assert 0.9 * limit < one.abs().max() <= limit


@pytest.mark.parametrize(("init", "scale"), [("zero", 0.0), ("normal", 0.02)])
def test_other_starts(init, scale):
    values = prompt_space(make_vit(), count=50, init=init).snapshot()
    assert float(values.std()) == pytest.approx(scale, rel=0.2)


@torch.no_grad()
def test_a_copied_model_has_its_own_prompts():
    net = make_vit()
    space = prompt_space(net)
    twin = copy.deepcopy(net)
    before = twin(X)
    assert torch.equal(before, net(X))
    space.load(space.snapshot() + 1)
    assert torch.equal(twin(X), before)
    assert not torch.equal(net(X), before)


@torch.no_grad()
def test_it_is_found_inside_a_model_and_by_name_of_the_space():
    net = nn.Sequential(nn.Identity(), make_vit())
    space = pick(
        "params", dict(type="prompt", under="1", count=2), "params", injected=("model",)
    ).build(model=net)
    assert space.names == ["1.prompts.tokens"]
    expected = by_hand(make_vit(), space.snapshot().view(2, 12), X)[0]
    torch.testing.assert_close(net(X), expected)


def test_mistakes_are_explained():
    with pytest.raises(ReservoirError, match=r"no vision transformer .*'blocks', 'head'"):
        prompt_space(nn.Sequential(nn.Conv2d(3, 4, 1)))
    with pytest.raises(ReservoirError, match=r"count must be a whole number of at least 1, got 0"):
        prompt_space(make_vit(), count=0)
    with pytest.raises(
        ReservoirError, match=r"unknown params.init 'norml' \(did you mean 'normal'"
    ):
        prompt_space(make_vit(), init="norml")
    net = make_vit()
    prompt_space(net)
    with pytest.raises(ReservoirError, match="has prompts already"):
        prompt_space(net)
    net = make_vit()
    space = prompt_space(net)
    with pytest.raises(ReservoirError, match=r"must be called once, .* with nothing"):
        space.features(lambda x: x, X)


@pytest.mark.parametrize(
    ("options", "prefix"),
    [({}, 1), (dict(global_pool="avg", class_token=False), 0), (dict(reg_tokens=2), 3)],
)
@torch.no_grad()
def test_vision_transformers_of_timm(options, prefix):
    timm = pytest.importorskip("timm", reason="timm (and torchvision, which it needs)")
    torch.manual_seed(0)
    net = timm.create_model(
        "vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, num_classes=5, **options
    ).eval()
    images = torch.randn(2, 3, 32, 32)
    plain = net(images)
    space = prompt_space(net, count=4)
    logits, features = space.features(net, images)
    assert logits.shape == (2, 5)
    torch.testing.assert_close(net.head(features), logits)
    assert not torch.allclose(logits, plain, atol=1e-4)
    with space.hidden():
        assert torch.equal(net(images), plain)

    prompts = space.snapshot().view(1, 4, -1).expand(2, -1, -1)
    assert net.num_prefix_tokens == prefix
    with space.hidden():
        x = net.norm_pre(net.patch_drop(net._pos_embed(net.patch_embed(images))))
        # At the end: attention knows no order.
        x = net.blocks[1](net.blocks[0](torch.cat([x, prompts], dim=1)))
        expected = net.forward_head(net.norm(x[:, :-4]))
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)


class Blocks(nn.Module):
    """Two blocks that tell what they see; the classifier gets the sum of the tokens."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.head = nn.Identity(), nn.Identity(), nn.Identity()
        self.prompts = PromptTokens(torch.tensor([[10.0, 20.0]]), position=1)
        self.prompts.attach(self.first, self.last)
        self.between = []

    def forward(self, x):
        x = self.first(x)
        self.between.append(x.detach())
        return self.head(self.last(x).sum(dim=1))


def make_blocks():
    net = Blocks()
    return net, PromptSpace(net, "prompts.tokens", net.prompts, net.head)


TOKENS = torch.arange(12.0).view(2, 3, 2)


def test_prompts_are_there_between_the_blocks_and_nowhere_else():
    net, space = make_blocks()
    out = net(TOKENS)
    assert net.between[0].tolist()[0] == [[0, 1], [10, 20], [2, 3], [4, 5]]
    assert torch.equal(out, TOKENS.sum(dim=1))
    with space.hidden():
        net(TOKENS)
    assert torch.equal(net.between[1], TOKENS)
    net(TOKENS)
    assert torch.equal(net.between[2], net.between[0])


def test_hidden_ends_with_an_error_too():
    net, space = make_blocks()
    with pytest.raises(KeyError), space.hidden():
        raise KeyError
    net(TOKENS)
    assert net.between[0].shape == (2, 4, 2)


def test_at_the_initial_values_there_are_no_prompts_and_at_others_there_are():
    net, space = make_blocks()
    space.load(torch.tensor([7.0, 8.0]))
    for values, tokens in ((space.initial, 3), (space.initial + 1, 4)):
        with space.at(values):
            net(TOKENS)
        assert net.between[-1].shape[1] == tokens
    assert net.between[-1][0, 1].tolist() == [11, 21]
    assert space.values.tolist() == [7, 8]


def test_features_are_what_the_classifier_gets_and_the_hook_goes():
    net, space = make_blocks()
    logits, features = space.features(net, TOKENS)
    assert torch.equal(features, TOKENS.sum(dim=1))
    assert torch.equal(logits, features)
    assert not net.head._forward_pre_hooks


def test_blocks_of_something_else_are_refused():
    net, _ = make_blocks()
    for wrong in (torch.zeros(2, 3, 5), torch.zeros(2, 3, 4, 2)):
        with pytest.raises(ReservoirError, match=r"blocks of tokens \(N, L, 2\), got \(2, 3, "):
            net(wrong)
