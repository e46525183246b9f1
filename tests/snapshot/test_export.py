"""An exported expert gives, in stock mmseg, the logits that it gives here."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmseg.apis import init_model

from mmseg_reservoir.config.builder import SEGMENTATION, RunBuilder, TaskContext
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.checkpoints import read_weights
from mmseg_reservoir.seg.forward import segmentation_forward
from mmseg_reservoir.seg.source_images import preprocessor_range
from mmseg_reservoir.snapshot.export import export_expert
from mmseg_reservoir.snapshot.reservoir_snapshot import take_snapshot

ROOT = Path(__file__).parents[2]
WEIGHTS = ROOT / "checkpoints" / "segformer_tiny_minicity.safetensors"
MIXTURES = ROOT / "checkpoints" / "becotta_tiny_minicity.safetensors"
CONFIG = ROOT / "configs" / "_base_" / "models" / "segformer_tiny.py"
IMAGES = torch.randn(2, 3, 64, 128, generator=torch.Generator().manual_seed(0))
ORACLE = dict(preset="published", router=dict(type="oracle"))
SGD = dict(type="SGD", lr=0.01)


def stock(checkpoint):
    """A model as mmseg's own ``init_model`` makes it; no hook, no part of this package."""
    return init_model(Config.fromfile(CONFIG), str(checkpoint), device="cpu")


def _plain_checkpoint(folder):
    plain = folder / "plain.pth"
    torch.save({"state_dict": read_weights(WEIGHTS), "meta": {"dataset_meta": {}}}, plain)
    return plain


def adapted(tmp_path, **options):
    """A pipeline around the shipped model, after a few batches; its expert 1 is fog's."""
    model = stock(_plain_checkpoint(tmp_path))
    plan = RunBuilder(SEGMENTATION, reservoir=ORACLE, **options)
    image_range = preprocessor_range(model.data_preprocessor)
    pipeline = plan.assemble(TaskContext(model, segmentation_forward, image_range))
    for _ in range(3):
        pipeline.step(IMAGES, domain="fog")
    return pipeline


@torch.no_grad()
def logits_of(pipeline, index):
    space = pipeline.method.space
    with space.at(pipeline.reservoir.checkout(index)[0]):
        return segmentation_forward(space.model, IMAGES)


CASES = {
    "norms": dict(method=dict(type="tent", optimizer=SGD)),
    "everything": dict(method=dict(type="tent", optimizer=SGD), params=dict(type="all")),
    "lora": dict(
        method=dict(type="tent", optimizer=dict(type="SGD", lr=10.0)), params=dict(type="lora")
    ),
    "teacher": dict(
        method=dict(type="cotta", ratios=[1.0], momentum=0.5, optimizer=dict(type="SGD", lr=0.1))
    ),
}


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_stock_mmseg_gives_the_logits_of_the_expert(case, suffix, tmp_path):
    pipeline = adapted(tmp_path, **CASES[case])
    expected = logits_of(pipeline, 1)
    assert (expected - logits_of(pipeline, 0)).abs().max() > 1e-2  # it has moved
    file = tmp_path / f"fog{suffix}"
    assert export_expert(take_snapshot(pipeline, {}), 1, WEIGHTS, file) == file
    if suffix == ".safetensors":  # which init_model reads, but finds no meta in
        torch.save({"state_dict": read_weights(file), "meta": {}}, tmp_path / "fog.pth")
    logits = stock(tmp_path / "fog.pth")(IMAGES, mode="tensor")
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("method", ["align", "tent", "lora"])
@torch.no_grad()
def test_the_correction_of_an_aligned_expert_is_folded_into_its_norms(method, tmp_path):
    model = stock(_plain_checkpoint(tmp_path))
    lora = dict(method="tent", params=dict(type="lora"))
    options = lora if method == "lora" else dict(method=method)
    plan = RunBuilder(SEGMENTATION, reservoir=dict(router=dict(type="oracle")), **options)
    image_range = preprocessor_range(model.data_preprocessor)
    place = TaskContext(model, segmentation_forward, image_range, [IMAGES, 1.3 * IMAGES])
    pipeline = plan.assemble(place)
    plan.calibrate(pipeline, place)
    foggy = 0.4 * IMAGES + 0.5
    for _ in range(4):
        pipeline.step(foggy, domain="fog")
    expected = pipeline.infer(foggy, domain="fog").logits
    file = export_expert(take_snapshot(pipeline, {}), 1, WEIGHTS, tmp_path / "fog.pth")
    logits = stock(file)(foggy, mode="tensor")
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
    source = stock(tmp_path / "plain.pth")(foggy, mode="tensor")
    assert (source - logits).abs().max() > 0.1  # the correction is not small


def test_an_aligned_input_cannot_be_exported(tmp_path):
    model = stock(_plain_checkpoint(tmp_path))
    aligned = dict(layers="input")
    plan = RunBuilder(
        SEGMENTATION, method="align", reservoir=dict(router=dict(type="oracle"), alignment=aligned)
    )
    image_range = preprocessor_range(model.data_preprocessor)
    place = TaskContext(model, segmentation_forward, image_range, [IMAGES, 1.3 * IMAGES])
    pipeline = plan.assemble(place)
    plan.calibrate(pipeline, place)
    pipeline.step(0.4 * IMAGES, domain="fog")
    with pytest.raises(ReservoirError, match=r"aligns 'input'.*--frozen"):
        export_expert(take_snapshot(pipeline, {}), 1, WEIGHTS, tmp_path / "fog.pth")


def test_a_plain_checkpoint_has_the_names_of_the_source_and_keeps_its_meta(tmp_path):
    pipeline = adapted(tmp_path, **CASES["lora"])
    file = export_expert(
        take_snapshot(pipeline, {}), 1, tmp_path / "plain.pth", tmp_path / "fog.pth"
    )
    saved = torch.load(file, weights_only=True)
    assert saved["meta"] == {"dataset_meta": {}}
    source = read_weights(WEIGHTS)
    assert saved["state_dict"].keys() == source.keys()
    changed = [n for n, t in saved["state_dict"].items() if not torch.equal(t, source[n])]
    # The packed q, k, v and the output of every attention, and two convolutions of every block.
    assert len(changed) == 4 * 8
    assert sum(name.endswith("in_proj_weight") for name in changed) == 8


def test_becotta_is_refused_with_the_reason(tmp_path):
    params = dict(type="becotta", weights=str(MIXTURES))
    pipeline = adapted(tmp_path, method=dict(type="becotta", optimizer=SGD), params=params)
    with pytest.raises(ReservoirError, match="mixtures of BECoTTA, with gates that read the image"):
        export_expert(take_snapshot(pipeline, {}), 1, WEIGHTS, tmp_path / "fog.pth")


@pytest.mark.parametrize("statistics", [0.1, "batch"])
def test_statistics_of_the_image_are_refused(statistics, tmp_path):
    pipeline = adapted(tmp_path, statistics=statistics, **CASES["norms"])
    with pytest.raises(ReservoirError, match="uses the statistics of each batch"):
        export_expert(take_snapshot(pipeline, {}), 1, WEIGHTS, tmp_path / "fog.pth")


def test_mistakes_are_named(tmp_path):
    snapshot = take_snapshot(adapted(tmp_path, **CASES["norms"]), {})
    with pytest.raises(ReservoirError, match="no expert 2: the reservoir has 0 to 1"):
        export_expert(snapshot, 2, WEIGHTS, tmp_path / "fog.pth")
    with pytest.raises(ReservoirError, match=r"must end in \.pth or \.safetensors"):
        export_expert(snapshot, 1, WEIGHTS, tmp_path / "fog.bin")
    other = read_weights(WEIGHTS)
    other["decode_head.conv_seg.bias"] = other["decode_head.conv_seg.bias"] + 1
    torch.save({"state_dict": other}, tmp_path / "other.pth")
    with pytest.raises(ReservoirError, match=r"other\.pth is not the checkpoint of the source"):
        export_expert(snapshot, 1, tmp_path / "other.pth", tmp_path / "fog.pth")
    assert not (tmp_path / "fog.pth").exists()
