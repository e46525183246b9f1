import copy

import pytest
import torch
from mmengine.structures import PixelData
from mmseg.structures import SegDataSample
from torch.nn.functional import interpolate

from mmseg_reservoir.becotta import inject
from mmseg_reservoir.becotta.warmup import BecottaWarmup, count_pixels, evaluate, mean_iou


def batch(count=4, size=(32, 64)):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, 3, *size, generator=generator)
    samples = []
    for _ in range(count):
        label = torch.randint(19, (1, *size), generator=generator)
        samples.append(SegDataSample(gt_sem_seg=PixelData(data=label)))
    return inputs, samples


@pytest.fixture
def warmup(model):
    inject(model, "M", domains=["clear", "night", "fog"])
    return BecottaWarmup(model)


def descend(warmup, steps, lr=1e-2):
    """Train on the same batch; returns the logged numbers of every step."""
    optimizer = torch.optim.Adam(warmup.parameters(), lr=lr)
    warmup.train()
    inputs, samples = batch()
    history = []
    for _ in range(steps):
        loss, log = warmup.parse_losses(warmup(inputs, samples, mode="loss"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(log)
    return history


def test_learns_all_three_and_leaves_the_segmentor_alone(warmup):
    fixed = {k: v.clone() for k, v in warmup.segmentor.state_dict().items() if "becotta" not in k}
    history = descend(warmup, 8)
    for key in ("loss_ce", "loss_domain", "loss_information"):
        assert history[-1][key] < history[0][key]
    state = warmup.segmentor.state_dict()
    assert all(torch.equal(state[name], value) for name, value in fixed.items())
    assert all(
        p.requires_grad == name.startswith("becotta.")
        for name, p in warmup.segmentor.named_parameters()
    )


def test_a_runner_cannot_draw_the_loaded_weights_anew(warmup):
    before = {name: value.clone() for name, value in warmup.state_dict().items()}
    warmup.init_weights()
    assert all(torch.equal(value, before[name]) for name, value in warmup.state_dict().items())


def test_only_becotta_is_in_training_mode(warmup):
    warmup.train()
    assert warmup.becotta.mixtures[0].gates.training
    modules = warmup.segmentor.named_modules()
    assert not any(m.training for name, m in modules if not name.startswith("becotta"))
    warmup.eval()
    assert not warmup.becotta.mixtures[0].gates.training


def test_a_resumed_training_goes_on_as_if_nothing_had_happened(warmup, tiny_model):
    descend(warmup, 2)
    other = copy.deepcopy(tiny_model)
    inject(other, "M", domains=["clear", "night", "fog"])
    other = BecottaWarmup(other)
    other.load_state_dict(warmup.state_dict())
    torch.manual_seed(5)
    assert descend(other, 2) == descend(warmup, 2)


def test_restyles_preprocessed_images(warmup):
    grey = torch.full((3, 40, 40, 3), 128, dtype=torch.uint8).permute(0, 3, 1, 2)
    inputs = warmup.data_preprocessor({"inputs": list(grey)})["inputs"]
    result = warmup.restyle(inputs, torch.tensor([0, 1, 0]), torch.Generator().manual_seed(0))
    torch.testing.assert_close(result[[0, 2]], inputs[[0, 2]], rtol=1e-4, atol=1e-4)
    pixels = result[1] * warmup.data_preprocessor.std + warmup.data_preprocessor.mean
    assert 0 < pixels.mean() < 90
    blue_on_average = pixels[2].mean() > pixels[0].mean()
    assert blue_on_average


def test_a_batch_has_all_domains_in_turn(warmup):
    labels = warmup._labels(7, torch.Generator().manual_seed(0))
    assert sorted(labels.bincount(minlength=3).tolist()) == [2, 2, 3]


def test_predicts_as_the_segmentor_does(warmup):
    inputs, _ = batch(2)
    with torch.no_grad():
        assert torch.equal(warmup.eval()(inputs), warmup.segmentor(inputs))


def test_mean_iou_of_a_small_example():
    truth = torch.tensor([[0, 0, 1], [1, 255, 255]])
    predicted = torch.tensor([[0, 1, 1], [1, 0, 2]])
    confusion = count_pixels(predicted, truth, classes=4)
    assert confusion.tolist() == [[1, 1, 0, 0], [0, 2, 0, 0], [0] * 4, [0] * 4]
    assert mean_iou(confusion) == pytest.approx((1 / 2 + 2 / 3) / 2)


def test_evaluate_tells_mean_iou_and_the_discriminators_accuracy_by_domain(model):
    inject(model, "S", domains=["clear", "night"])
    model.becotta.discriminator.classify.bias.data = torch.tensor([0.0, 1e6])  # always night
    warmup = BecottaWarmup(model).train()
    image = torch.randint(0, 255, (3, 64, 64), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        inputs = warmup.data_preprocessor({"inputs": [image.byte()]})["inputs"]
        logits = model(inputs)
    truth = interpolate(logits, (64, 64), mode="bilinear").argmax(1)
    data = {"inputs": [image.byte()], "data_samples": [SegDataSample()]}
    data["data_samples"][0].gt_sem_seg = PixelData(data=truth)
    result = evaluate(warmup, [data])
    assert result["clear"] == {"mIoU": pytest.approx(100), "domain_accuracy": 0.0}
    assert result["night"]["mIoU"] < 100
    assert result["night"]["domain_accuracy"] == 100.0
    assert warmup.becotta.training
    assert evaluate(warmup, [data]) == result
