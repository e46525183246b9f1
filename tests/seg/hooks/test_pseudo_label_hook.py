import cv2
import numpy as np
import pytest
from mmseg.datasets import CityscapesDataset
from stream_run import SHORT, TINY, data_options, run

from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.seg.hooks.pseudo_label_hook import panel
from mmseg_reservoir.seg.label_images import overlay

PALETTE = CityscapesDataset.METAINFO["palette"]


def panels_in(folder):
    """The panels, without the label maps, ground truths and overlays beside them."""
    others = ("TrainIds", "overlay", "groundTruth")
    return sorted(p for p in folder.rglob("*.png") if not p.stem.endswith(others))


def write_config(path, hook: str):
    path.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_tent.py')!r}\n"
        "custom_hooks = [dict(type='AdaptationHook'), dict(type='ResultsHook'),\n"
        f"                dict(type='PseudoLabelHook', {hook})]\n"
    )
    return path


def test_show_dir_saves_the_first_frame_of_every_visit(minicity, source_run):
    show = source_run.work_dir.parent / "panels"
    panels = panels_in(show)
    assert [str(p.parent.relative_to(show)) for p in panels] == [
        "round1/fog",
        "round1/night",
        "round2/fog",
        "round2/night",
    ]
    picture = cv2.imread(str(panels[0]))
    assert picture.shape == (128 + 22, 3 * 256 + 2 * 4, 3)
    image = min(minicity.glob("rgb_anon/fog/train/*/*.png"))
    np.testing.assert_array_equal(picture[22:, :256], cv2.imread(str(image)))
    label = cv2.imread(str(panels[0]).replace(".png", "_labelTrainIds.png"), cv2.IMREAD_GRAYSCALE)
    assert label.shape == (128, 256)
    assert label.max() < 19
    (truth,) = minicity.glob(
        f"gt/fog/train/*/{image.name.replace('_rgb_anon.png', '_gt_labelTrainIds.png')}"
    )
    np.testing.assert_array_equal(
        cv2.imread(str(panels[0]).replace(".png", "_groundTruth.png"), cv2.IMREAD_GRAYSCALE),
        cv2.imread(str(truth), cv2.IMREAD_GRAYSCALE),
    )
    shown = cv2.imread(str(panels[0]).replace(".png", "_overlay.png"))
    np.testing.assert_array_equal(shown[:128], overlay(cv2.imread(str(image)), label, PALETTE))
    assert shown[128:].shape[0] >= 18  # the legend


@pytest.mark.parametrize(
    ("count", "wanted"), [("2", ["000001", "000003"]), ("all", ["000001", "000002", "000003"])]
)
def test_so_many_frames_of_every_visit_are_shown(minicity, tmp_path, count, wanted):
    flags = [f"--show-dir={tmp_path / 'p'}", f"--show-frames={count}"]
    run("segformer-tiny_source", minicity, tmp_path / "w", *SHORT, flags=flags)
    names = [p.stem[-15:-9] for p in panels_in(tmp_path / "p" / "round1" / "fog")]
    assert names == wanted


@pytest.mark.parametrize("words", ["none", "0", "-3"])
def test_a_wrong_number_of_frames_is_refused(words, capsys):
    with pytest.raises(SystemExit):
        test_tta.main(["config.py", "--show-dir=p", f"--show-frames={words}"])
    assert "--show-frames: invalid" in capsys.readouterr().err


def test_chosen_frames_and_the_source_as_baseline(minicity, tmp_path):
    show = tmp_path / "panels"
    hook = f"show_dir={str(show)!r}, frames=[0, 2], rounds=[2], baseline='source'"
    run(write_config(tmp_path / "c.py", hook), minicity, tmp_path / "w")
    panels = panels_in(show)
    assert len(panels) == 4  # 2 frames x 2 domains, second round only
    assert all("round2" in str(p) for p in panels)
    assert cv2.imread(str(panels[0])).shape[1] == 4 * 256 + 3 * 4


@pytest.mark.slow
def test_another_run_as_baseline(minicity, tmp_path, capfd):
    one, two = tmp_path / "one", tmp_path / "two"
    run("segformer-tiny_source", minicity, tmp_path / "w1", flags=[f"--show-dir={one}"])
    hook = f"show_dir={str(two)!r}, baseline={str(one)!r}"
    run(write_config(tmp_path / "c.py", hook), minicity, tmp_path / "w2")
    assert len(list(two.rglob("*.png"))) == len(list(one.rglob("*.png"))) == 12

    next(one.rglob("*_labelTrainIds.png")).unlink()
    config = write_config(tmp_path / "d.py", f"show_dir={str(two)!r}, baseline={str(one)!r}")
    command = [str(config), "--random-weights", f"--work-dir={tmp_path / 'w3'}", "--cfg-options"]
    assert test_tta.main([*command, *data_options(minicity)]) == 2
    assert "the baseline has no picture" in capfd.readouterr().err


@pytest.mark.parametrize("width", [100, 400])
def test_panel_is_scaled_down_never_up(width):
    pictures = {"a": np.zeros((50, 200, 3), np.uint8), "b": np.full((50, 200, 3), 9, np.uint8)}
    size = min(width, 200)
    assert panel(pictures, width).shape == (size // 4 + 22, 2 * size + 4, 3)
