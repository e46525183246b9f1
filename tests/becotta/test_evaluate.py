import pytest
import torch
from mmengine.structures import PixelData
from mmseg.structures import SegDataSample

from mmseg_reservoir.becotta import inject
from mmseg_reservoir.becotta.evaluate import count_pixels, evaluate, mean_iou
from mmseg_reservoir.becotta.warmup import BecottaWarmup


def test_mean_iou_of_a_small_example():
    truth = torch.tensor([[0, 0, 1], [1, 255, 255]])
    predicted = torch.tensor([[0, 1, 1], [1, 0, 2]])
    confusion = count_pixels(predicted, truth, classes=4)
    assert confusion.tolist() == [[1, 1, 0, 0], [0, 2, 0, 0], [0] * 4, [0] * 4]
    assert mean_iou(confusion) == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_tells_mean_iou_and_the_discriminators_accuracy_by_domain(model):
    inject(model, "S", domains=["clear", "night"])
    model.becotta.discriminator.classify.bias.data = torch.tensor([0.0, 1e6])  # always night
    warmup = BecottaWarmup(model).train()
    image = torch.randint(0, 255, (3, 64, 64), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        inputs = warmup.data_preprocessor({"inputs": [image.byte()]})["inputs"]
        logits = model(inputs)
    truth = torch.nn.functional.interpolate(logits, (64, 64), mode="bilinear").argmax(1)
    data = {"inputs": [image.byte()], "data_samples": [SegDataSample()]}
    data["data_samples"][0].gt_sem_seg = PixelData(data=truth)
    result = evaluate(warmup, [data])
    assert result["clear"] == {"mIoU": pytest.approx(100), "domain_accuracy": 0.0}
    assert result["night"]["mIoU"] < 100
    assert result["night"]["domain_accuracy"] == 100.0
    assert warmup.becotta.training
    assert evaluate(warmup, [data]) == result
