import copy

import pytest
import torch
from safetensors.torch import save_file

from mmseg_reservoir.becotta import inject
from mmseg_reservoir.becotta.store import load, read_meta, save
from mmseg_reservoir.errors import ReservoirError


@pytest.fixture
def warm(model):
    """A tiny model whose mixtures do something."""
    becotta = inject(model, "S", domains=["clear", "night"])
    generator = torch.Generator().manual_seed(1)
    for parameter in becotta.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


def test_a_file_makes_the_same_model_again(warm, tiny_model, images, tmp_path):
    save(tmp_path / "new" / "b.safetensors", warm.becotta, miou=70.5)
    other = copy.deepcopy(tiny_model)
    becotta = load(tmp_path / "new" / "b.safetensors", other)
    assert becotta.domains == ("clear", "night")
    with torch.no_grad():
        assert torch.equal(other(images), warm(images))
        assert not torch.allclose(other(images), tiny_model(images), atol=1e-4)
    meta = read_meta(tmp_path / "new" / "b.safetensors")
    assert meta["variant"] == dict(experts=4, top_k=3, ranks=[0, 0, 0, 6])
    assert meta["domains"] == ["clear", "night"]
    assert meta["about"] == {"miou": 70.5}


def test_the_variant_may_be_named_but_must_be_right(warm, tmp_path):
    save(tmp_path / "b.safetensors", warm.becotta)
    load(tmp_path / "b.safetensors", warm, variant="S")
    with pytest.raises(ReservoirError, match=r"leave params\.variant out"):
        load(tmp_path / "b.safetensors", warm, variant="M")


def test_wrong_files_are_explained(warm, tmp_path):
    path = tmp_path / "b.safetensors"
    with pytest.raises(ReservoirError, match=r"no BECoTTA weights at .*: make them"):
        load(path, warm)
    path.write_bytes(b"not a file of tensors")
    with pytest.raises(ReservoirError, match=r"cannot be read .* with .reservoir warmup."):
        load(path, warm)
    save_file({"weight": torch.zeros(2)}, path, metadata={"format": "pt"})
    with pytest.raises(ReservoirError, match="holds no BECoTTA weights"):
        load(path, warm)
    save(path, warm.becotta)
    del warm.backbone.layers[3][1][1]
    with pytest.raises(ReservoirError, match=r"depths \[2, 2, 2, 2\], this one has \[2, 2, 2, 1\]"):
        load(path, warm)
