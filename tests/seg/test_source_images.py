import shutil

import pytest
import torch
from mmseg.models import SegDataPreProcessor
from nested import same
from stream_run import SHORT, TINY, data_options, run, seeded_reservoir

from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.footage.inferencer import ReservoirInferencer
from mmseg_reservoir.seg import UnlabeledImages
from mmseg_reservoir.seg.source_images import preprocessor_range
from mmseg_reservoir.style import Calibration, StyleEncoder

CONFIG = "segformer-tiny_tent_reservoir"


@pytest.fixture
def reads(monkeypatch):
    """Counts the source images that are read."""
    seen = []
    original = UnlabeledImages.prepare_data

    def prepare_data(self, idx):
        seen.append(idx)
        return original(self, idx)

    monkeypatch.setattr(UnlabeledImages, "prepare_data", prepare_data)
    return seen


def test_images_of_any_preprocessor_are_shown_to_the_style_encoder_alike():
    mean, std = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
    pixels = torch.rand(1, 3, 8, 8) * 255  # BGR, as loaded
    standard = SegDataPreProcessor(mean=mean, std=std, bgr_to_rgb=True)
    expected = standard({"inputs": [pixels[0]]})["inputs"]
    assert preprocessor_range(standard).to_imagenet(expected) is expected
    for preprocessor in (
        SegDataPreProcessor(mean=[0, 0, 0], std=[255, 255, 255], bgr_to_rgb=True),
        SegDataPreProcessor(mean=mean[::-1], std=std[::-1]),
        SegDataPreProcessor(),
    ):
        inputs = preprocessor({"inputs": [pixels[0]]})["inputs"].float()
        seen = preprocessor_range(preprocessor).to_imagenet(inputs)
        torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-4)


def test_source_styles_go_through_the_test_pipeline_once(minicity, tmp_path, reservoir_run, reads):
    first = reservoir_run.results
    styles = Calibration.load(reservoir_run.work_dir / "calibration.safetensors").styles
    encoder = StyleEncoder("seeded", size=64)  # as the config reads MiniCity's frames
    dataset = UnlabeledImages(
        data_root=str(minicity / "rgb_anon/clear/train"),
        img_suffix="_rgb_anon.png",
        pipeline=[dict(type="LoadImageFromFile"), dict(type="PackSegInputs")],
    )
    mean = torch.tensor([123.675, 116.28, 103.53]).view(3, 1, 1)
    std = torch.tensor([58.395, 57.12, 57.375]).view(3, 1, 1)
    by_hand = [(dataset[i]["inputs"].flip(0).float() - mean) / std for i in range(8)]
    expected = torch.stack([encoder(image[None]) for image in by_hand])
    torch.testing.assert_close(styles, expected, rtol=1e-4, atol=1e-4)
    assert first["tau"] == pytest.approx(torch.pdist(expected).median().item(), rel=0.2)

    reads.clear()
    cache = shutil.copytree(reservoir_run.work_dir.parent / "cache", tmp_path / "cache")
    options = [*seeded_reservoir(cache), *SHORT]
    again = run(CONFIG, minicity, tmp_path / "a", *options)
    assert not reads  # from the cache
    assert again["tau"] == first["tau"]

    larger = run(CONFIG, minicity, tmp_path / "b", *options, "test_dataloader.batch_size=2")
    assert len(reads) == 8  # another batch size: other styles, another calibration
    assert larger["tau"] != first["tau"]


@pytest.mark.slow
def test_a_saved_calibration_replaces_the_source_images(minicity, tmp_path, reads):
    options = seeded_reservoir(tmp_path / "cache")
    first = run(CONFIG, minicity, tmp_path / "a", *options)
    saved = shutil.copy(tmp_path / "a" / "calibration.safetensors", tmp_path / "deployed")
    reads.clear()
    shutil.rmtree(tmp_path / "cache")
    deployed = run(
        CONFIG,
        minicity,
        tmp_path / "b",
        *options,
        f"reservoir.calibration.file={saved}",
        "source_images.data_root=/nowhere",
    )
    assert not reads
    assert deployed["tau"] == first["tau"]
    assert [r["expert"] for r in deployed["routes"]] == [r["expert"] for r in first["routes"]]


def test_a_guard_learns_from_the_source_images_and_can_do_without(minicity, tmp_path, reads):
    guarded = [*seeded_reservoir(tmp_path / "cache"), "reservoir.guard.type=labels", *SHORT]
    first = run(CONFIG, minicity, tmp_path / "a", *guarded)
    assert len(reads) == 8 + 8  # for styles, and for the guard
    assert first["guard"]["margin"] >= 0.03
    assert set(first["guard"]["experts"]) == {str(r["expert"]) for r in first["routes"]}
    saved = tmp_path / "a" / "calibration.safetensors"
    reads.clear()
    deployed = [*guarded, f"reservoir.calibration.file={saved}", "source_images=None"]
    second = run(CONFIG, minicity, tmp_path / "b", *deployed)
    assert second["guard"]["margin"] == pytest.approx(0.15)
    assert not reads


def test_a_cached_calibration_changes_no_moment_of_the_source(minicity, tmp_path):
    """Neither in two runs of a tool nor in two inferencers: the first has to calibrate."""
    options = {
        "source_images": dict(data_root=str(minicity / "rgb_anon/clear/train"), img_suffix=".png"),
        "cfg_options": {"reservoir.calibration.cache": str(tmp_path / "cache")},
    }
    config = f"{TINY / 'segformer-tiny_cotta_robust.py'}"
    first, second = (ReservoirInferencer(config, **options) for _ in range(2))
    assert len(list((tmp_path / "cache").iterdir())) == 1
    one, other = (i.model.pipeline.alignment.reference.state_dict() for i in (first, second))
    assert same(one, other)


def fail(minicity, tmp_path, capfd, *options) -> str:
    command = [str(TINY / f"{CONFIG}.py"), "--random-weights", f"--work-dir={tmp_path / 'w'}"]
    command += ["--cfg-options", *data_options(minicity), *seeded_reservoir(tmp_path / "cache")]
    assert test_tta.main([*command, *options]) == 2
    return capfd.readouterr().err.splitlines()[-1]


def test_mistakes_are_explained(minicity, tmp_path, capfd):
    Calibration(torch.randn(4, 320), {"style": "another"}).save(tmp_path / "other")
    message = fail(minicity, tmp_path, capfd, f"reservoir.calibration.file={tmp_path / 'other'}")
    assert "was made with another style encoder" in message
    assert "set source_images=" in fail(minicity, tmp_path, capfd, "source_images=None")
    single = tmp_path / "single"
    single.mkdir()
    image = next(minicity.glob("rgb_anon/clear/train/*/*.png"))
    shutil.copy(image, single)
    message = fail(minicity, tmp_path, capfd, f"source_images.data_root={single}")
    assert "1 source images" in message
    shutil.copy(image, single / "broken_rgb_anon.png")
    (single / "broken_rgb_anon.png").write_bytes(b"no png")
    message = fail(minicity, tmp_path, capfd, f"source_images.data_root={single}")
    assert "broken_rgb_anon.png" in message
    assert not list((tmp_path / "cache").glob("*"))
    with pytest.raises(ReservoirError):
        Calibration.load(tmp_path / "w" / "calibration.safetensors")
