import copy
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmseg.registry import MODELS
from torch import nn

from mmseg_reservoir.becotta import (
    VARIANTS,
    LowRankExperts,
    Variant,
    find_variant,
    inject,
    remove,
    select_becotta,
)
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.params import ParamSpace

CONFIGS = Path(__file__).parents[2] / "configs"


def awake(becotta):
    """Give the mixtures an effect, as a warm-up would."""
    generator = torch.Generator().manual_seed(1)
    for mixture in becotta.mixtures:
        for parameter in mixture.parameters():
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return becotta


@pytest.fixture(scope="module")
def b5():
    cfg = Config.fromfile(CONFIGS / "_base_/models/segformer_mit-b5.py")
    model = nn.Module()
    model.backbone = MODELS.build(cfg.model.backbone)
    return model


@pytest.mark.parametrize(("variant", "count"), [("S", 79_944), ("M", 1_967_028), ("L", 11_131_392)])
def test_experts_of_segformer_b5_have_the_papers_size(b5, variant, count):
    keys = list(b5.backbone.state_dict())
    becotta = inject(b5, variant)
    experts = [m for m in becotta.modules() if isinstance(m, LowRankExperts)]
    assert sum(p.numel() for m in experts for p in m.parameters()) == count
    assert len(experts) == (3 if variant == "S" else 52)
    assert list(b5.backbone.state_dict()) == keys


def test_changes_nothing_before_the_warm_up_and_can_be_taken_out(model, images):
    keys = list(model.state_dict())
    with torch.no_grad():
        expected = model(images)
        becotta = awake(inject(model, "M"))
        assert not torch.allclose(model(images), expected, atol=1e-3)
        inject(model, "M")
        assert torch.equal(model(images), expected)
        assert [key for key in model.state_dict() if not key.startswith("becotta.")] == keys
        awake(model.becotta)
        remove(model)
        assert torch.equal(model(images), expected)
    assert list(model.state_dict()) == keys
    assert not hasattr(model, "becotta")
    assert len(becotta.mixtures) == 8


def test_works_behind_the_blocks_of_its_stages(model, images):
    becotta = awake(inject(model, "S"))
    seen, added = [], []
    blocks = model.backbone.layers[3][1]
    assert len(becotta.mixtures) == len(blocks) == 2
    blocks[0].ffn.register_forward_hook(lambda m, a, out: seen.append(out))
    blocks[1].register_forward_pre_hook(lambda m, args: added.append(args[0]))
    with torch.no_grad():
        model(images)
        torch.testing.assert_close(becotta.mixtures[0](seen[0]), added[0])
    assert not torch.allclose(seen[0], added[0])


def test_gradients_reach_gates_and_chosen_experts_and_nothing_else(model, images):
    becotta = awake(inject(model, "M"))
    space = ParamSpace(model, select_becotta(model))
    model(images[:1]).square().mean().backward()
    domain = int(becotta.discriminator(images[:1]).argmax())
    for mixture in becotta.mixtures:
        gate = mixture.gates.weight.grad.abs().sum(2) > 0
        assert gate.sum() == 3  # top 3, of the one domain
        assert gate[domain].sum() == 3
        for parameter in mixture.experts.parameters():
            reached = parameter.grad.flatten(1).abs().sum(1) > 0
            assert torch.equal(reached, gate[domain])
    chosen = {p.data_ptr() for p in select_becotta(model).values()}
    others = [p for p in model.parameters() if p.data_ptr() not in chosen]
    assert len(others) > len(chosen)
    assert all(p.grad is None and not p.requires_grad for p in others)
    assert space.values.grad.abs().sum() > 0


def test_selects_experts_and_gates_only(model):
    becotta = inject(model, "S")
    selected = select_becotta(model)
    leaves = {name.split(".", 3)[3] for name in selected}
    experts = {f"experts.{side}_{kind}" for side in ("down", "up") for kind in ("weight", "bias")}
    assert leaves == {*experts, "gates.weight"}
    assert len(selected) == 5 * len(becotta.mixtures)
    parameters = dict(model.named_parameters())
    assert all(parameters[name] is p for name, p in selected.items())


def test_the_domain_is_guessed_unless_it_is_assigned(model, images):
    becotta = inject(model, "S")
    guess = becotta.discriminator(images)
    with torch.no_grad():
        model(images)
        assert torch.equal(becotta.shares.value.argmax(1), guess.argmax(1))
        labels = torch.tensor([4, 0, 2])
        with becotta.assigned(labels):
            model(images)
        assert torch.equal(becotta.shares.value.argmax(1), labels)
        model(images)
        assert torch.equal(becotta.shares.value.argmax(1), guess.argmax(1))
        inject(model, "S", blend=True)
        model(images)
    torch.testing.assert_close(model.becotta.shares.value, guess.softmax(1))


def test_a_copy_of_the_model_uses_its_own_mixtures(model, images):
    inject(model, "S")
    other = copy.deepcopy(model)
    with torch.no_grad():
        expected = model(images)
        awake(other.becotta)
        assert torch.equal(model(images), expected)
        assert not torch.allclose(other(images), expected, atol=1e-4)
        remove(other)
        assert torch.equal(other(images), expected)


def test_mistakes_are_explained(model):
    with pytest.raises(ReservoirError, match="no BECoTTA mixtures: inject them"):
        select_becotta(model)
    with pytest.raises(ReservoirError, match="'backbone' of Linear is a NoneType"):
        inject(nn.Linear(2, 2))
    with pytest.raises(ReservoirError, match="'decode_head' of EncoderDecoder is a SegformerHead"):
        inject(model, under="decode_head")
    with pytest.raises(ReservoirError, match="ranks for 2 stages, the model has 4"):
        inject(model, dict(experts=2, top_k=2, ranks=[1, 1]))
    with pytest.raises(ReservoirError, match="must be different names"):
        inject(model, "S", domains=["fog", "fog"])


def test_a_variant_has_a_name_or_options():
    assert find_variant("S") is VARIANTS["S"]
    options = dict(experts=2, top_k=2, ranks=[0, 1])
    assert find_variant(options) == Variant(2, 2, (0, 1))
    assert find_variant(find_variant(options).as_dict()) == find_variant(options)


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("XL", "unknown variant of BECoTTA 'XL' .*valid: L, M, S"),
        (dict(experts=2, top_k=2, rank=[1]), "variant has no option 'rank'"),
        (dict(experts=2, top_k=3, ranks=[1]), "between 1 and the 2 experts, got 3"),
        (dict(experts=2, top_k=1, ranks=[1]), "leaves the gates without a gradient"),
        (dict(experts=2, top_k=2, ranks=[0, 0]), "at least one mixture"),
    ],
)
def test_mistakes_in_a_variant_are_explained(variant, message):
    with pytest.raises(ReservoirError, match=message):
        find_variant(variant)
