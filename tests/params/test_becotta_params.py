import torch

from mmseg_reservoir.becotta import inject, select_becotta
from mmseg_reservoir.becotta.store import save
from mmseg_reservoir.methods.becotta import Becotta
from mmseg_reservoir.params import ParamSpace
from mmseg_reservoir.params.becotta_params import becotta_params


def test_injects_what_a_file_holds(model, images, tmp_path):
    becotta = inject(model, "M", domains=["clear", "fog"])
    becotta.mixtures[3].experts.up_bias.data += 1
    save(tmp_path / "b.safetensors", becotta)
    with torch.no_grad():
        expected = model(images)
        selected = becotta_params(model, weights=tmp_path / "b.safetensors", blend=True)
        assert model.becotta is not becotta
        assert model.becotta.blend
        assert model.becotta.domains == ("clear", "fog")
        assert list(selected) == list(select_becotta(model))
        becotta_params(model, weights=tmp_path / "b.safetensors")
        assert torch.equal(model(images), expected)


def test_without_a_file_it_is_the_identity_with_one_gate(model, images):
    with torch.no_grad():
        expected = model(images)
        selected = becotta_params(model)
        assert torch.equal(model(images), expected)
    assert len(model.becotta.domains) == 1
    assert len(selected) == 5 * 2


def test_the_method_adapts_experts_and_gates_of_a_segformer_and_nothing_else(model, images):
    space = ParamSpace(model, becotta_params(model, "M"))
    model.becotta.mixtures[7].experts.up_bias.data.normal_()
    method = Becotta(
        model, space, lambda p: torch.optim.Adam(p, lr=1e-2), margin=2.0, confidence=0.0
    )
    fixed = {k: v.clone() for k, v in model.state_dict().items() if k not in space.names}
    for _ in range(2):
        method.adapt(images)
    assert method.counts["updates"] == 2
    changed = (space.values != method.source).float()
    moved = {
        name for name, part in zip(space.names, space.split(changed), strict=True) if part.any()
    }
    assert {name.split(".", 3)[3] for name in moved} >= {"gates.weight", "experts.up_weight"}
    state = model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in fixed.items())
