import cv2
import numpy as np
import pytest
import torch

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg import VisitIoUMetric


def sample(prediction, label):
    return {
        "pred_sem_seg": {"data": torch.as_tensor(prediction)[None]},
        "gt_sem_seg": {"data": torch.as_tensor(label)[None]},
        "img_path": "image.png",
        "seg_map_path": "label.png",
    }


@pytest.fixture
def metric():
    metric = VisitIoUMetric(iou_metrics=["mIoU"])
    metric.dataset_meta = {"classes": ("a", "b", "c", "d")}
    return metric


def test_full_precision_over_the_visit(metric):
    rng = np.random.default_rng(0)
    pairs = [(rng.integers(0, 3, (7, 9)), rng.integers(0, 3, (7, 9))) for _ in range(5)]
    pairs[0][1][0, 0] = 255
    prediction = np.stack([p for p, _ in pairs])
    label = np.stack([t for _, t in pairs])
    valid = label != 255
    iou = [
        ((prediction == c) & (label == c)).sum()
        / (((prediction == c) | (label == c)) & valid).sum()
        for c in range(3)
    ]
    for p, t in pairs:
        metric.process({}, [sample(p, t)])
    assert metric.running_miou() == pytest.approx(100 * np.mean(iou), abs=1e-9)
    scores = metric.evaluate(5)
    assert scores["mIoU"] == pytest.approx(100 * np.mean(iou), abs=1e-9)
    assert scores["mIoU"] != round(scores["mIoU"], 2)
    assert metric.per_class == {
        **{name: pytest.approx(100 * v, abs=1e-9) for name, v in zip("abc", iou, strict=True)},
        "d": None,
    }
    assert scores["aAcc"] == pytest.approx(100 * (prediction == label)[valid].mean(), abs=1e-4)


def test_each_visit_starts_anew(metric):
    right, wrong = np.zeros((2, 2), int), np.ones((2, 2), int)
    metric.process({}, [sample(wrong, right)])
    assert metric.evaluate(1)["mIoU"] == 0
    assert np.isnan(metric.running_miou())
    metric.process({}, [sample(right, right)])
    assert metric.running_miou() == 100
    assert metric.evaluate(1)["mIoU"] == 100


def test_label_of_another_size_is_explained(metric):
    with pytest.raises(ReservoirError, match=r"label.png is 2x3, its image image.png is 4x3"):
        metric.process({}, [sample(np.zeros((4, 3), int), np.zeros((2, 3), int))])


def test_labels_outside_the_classes_are_told_once_and_counted(metric, monkeypatch):
    said = []
    monkeypatch.setattr("mmseg_reservoir.seg.metric.print_log", lambda text, **_: said.append(text))
    label = np.array([[0, 7], [33, 255]])
    for _ in range(2):
        metric.process({}, [sample(np.zeros((2, 2), int), label)])
    (told,) = said
    assert "label.png holds the values [7, 33], but there are 4 classes, 0 to 3" in told
    assert "Are these labelIds? Give trainIds" in told
    metric.evaluate(2)
    assert metric.strange_labels == 2
    metric.process({}, [sample(np.zeros((2, 2), int), np.array([[0, 1], [3, 255]]))])
    metric.evaluate(1)
    assert metric.strange_labels == 0


@pytest.mark.filterwarnings("error")
def test_a_visit_without_a_labelled_pixel_has_no_score(metric):
    metric.process({}, [sample(np.zeros((2, 2), int), np.full((2, 2), 255))])
    assert np.isnan(metric.evaluate(1)["mIoU"])
    assert set(metric.per_class.values()) == {None}


def test_a_visit_of_which_every_image_was_skipped_has_no_score(metric):
    assert metric.evaluate(0) == {}
    assert metric.per_class == {}


def test_images_without_labels_are_not_scored(metric):
    right, wrong = np.zeros((2, 2), int), np.ones((2, 2), int)
    unlabelled = {k: v for k, v in sample(wrong, wrong).items() if k != "gt_sem_seg"}
    metric.process({}, [sample(right, right), unlabelled])
    assert metric.evaluate(2)["mIoU"] == 100
    metric.process({}, [unlabelled])
    assert np.isnan(metric.running_miou())
    assert metric.evaluate(1) == {}
    assert metric.per_class == {}


@pytest.mark.parametrize("words", [["mDice"], ["mFscore", "mIoU"]])
def test_other_scores_come_beside_miou(words):
    metric = VisitIoUMetric(iou_metrics=words)
    metric.dataset_meta = {"classes": ("a", "b")}
    metric.process({}, [sample([[0, 0], [1, 1]], [[0, 1], [1, 1]])])
    scores = metric.evaluate(1)
    assert scores["mIoU"] == pytest.approx(100 * (1 / 2 + 2 / 3) / 2)
    other = {"mDice": "mDice", "mFscore": "mFscore"}[words[0]]
    assert scores[other] == pytest.approx(100 * (2 / 3 + 4 / 5) / 2)


def test_format_only_writes_predictions_and_looks_at_no_label(tmp_path):
    metric = VisitIoUMetric(format_only=True, output_dir=str(tmp_path))
    metric.dataset_meta = {"classes": ("a", "b", "c")}
    labelled = sample(np.full((2, 3), 2), np.zeros((9, 9), int))  # whose label would not fit
    unlabelled = {**labelled, "img_path": "other.png"}
    del unlabelled["gt_sem_seg"]
    metric.process({}, [labelled, unlabelled])
    assert metric.evaluate(2) == {}
    for name in ("image.png", "other.png"):
        assert cv2.imread(str(tmp_path / name), cv2.IMREAD_GRAYSCALE).tolist() == [[2, 2, 2]] * 2
