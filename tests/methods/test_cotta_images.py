import copy

import pytest
import torch
from logit_net import logit_method, some_logits
from small_net import make_classifier, make_method

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import CottaImages
from mmseg_reservoir.methods.common.augment import Augment
from mmseg_reservoir.params import ParamSpace, norm_affine
from mmseg_reservoir.params.normalization import use_batch_statistics

IMAGES = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(3))


def cotta(**options):
    return make_method(CottaImages, supports="images", **{"views": 3, **options})


def net_at(vector):
    net = make_classifier()
    use_batch_statistics(net)
    space = ParamSpace(net, norm_affine(net))
    space.load(vector)
    return net, space


def moved(method, by=0.3):
    noise = torch.randn(len(method.space), generator=torch.Generator().manual_seed(5))
    return method.source + by * noise


@pytest.mark.parametrize("average", ["probabilities", "logits"])
@torch.no_grad()
def test_an_unsure_anchor_asks_for_the_mean_over_augmentations(average):
    method = cotta(confidence=0.9, average=average, seed=7)
    teacher = moved(method)
    method.load(teacher, method.fresh_domain_state())
    net, _ = net_at(teacher)
    generator, augment = torch.Generator().manual_seed(7), Augment()
    views = torch.stack([net(augment(IMAGES, generator)) for _ in range(3)])
    expected = views.mean(0).softmax(1) if average == "logits" else views.softmax(2).mean(0)
    for prediction in (method.predict(IMAGES), method.adapt(IMAGES)):
        torch.testing.assert_close(prediction.softmax(1), expected)
    assert method.counts["augmented"] == 1
    assert (expected - net(IMAGES).softmax(1)).abs().max() > 1e-4


@torch.no_grad()
def test_a_sure_anchor_lets_the_teacher_see_the_images_as_they_are():
    anchor, _ = net_at(cotta().source)
    sure = float(anchor(IMAGES).softmax(1).amax(1).mean())
    method = cotta(confidence=sure - 1e-4)
    teacher = moved(method)
    method.load(teacher, method.fresh_domain_state())
    expected = net_at(teacher)[0](IMAGES).softmax(1)
    torch.testing.assert_close(method.adapt(IMAGES).softmax(1), expected)
    assert method.counts["augmented"] == 0
    # The threshold is of the mean over the batch, of the anchor and not of the teacher.
    method = cotta(confidence=sure + 1e-4)
    method.load(teacher, method.fresh_domain_state())
    method.adapt(IMAGES)
    assert method.counts["augmented"] == 1


def test_loss_is_the_soft_cross_entropy_with_the_teacher():
    logits = some_logits(dtype=torch.float64)
    method = logit_method(CottaImages, torch.float64, confidence=0.0)
    method.state["student"] = method.source + torch.linspace(-0.5, 0.5, 8, dtype=torch.float64)
    student = logits * method.state["student"][:4] + method.state["student"][4:]
    expected = -(logits.softmax(1) * student.softmax(1).log()).sum(1).mean()
    prediction, loss = method.loss(logits)
    torch.testing.assert_close(loss.detach(), expected)
    torch.testing.assert_close(prediction.softmax(1), logits.softmax(1))


def test_student_steps_and_the_teacher_follows():
    method = cotta(momentum=0.9, confidence=0.0)
    # A student apart from the teacher: at the same place the gradient is but rounding.
    method.state["student"] = moved(method)
    student, space = net_at(moved(method))
    optimizer = torch.optim.Adam([space.values], lr=0.05)
    teacher = method.source.clone()
    for _ in range(3):
        with torch.no_grad():
            label = net_at(teacher)[0](IMAGES).softmax(1)
        space.zero_grad()
        (-(label * student(IMAGES).log_softmax(1)).sum(1).mean()).backward()
        optimizer.step()
        teacher = 0.9 * teacher + 0.1 * space.values.detach()
        method.adapt(IMAGES)
        torch.testing.assert_close(method.state["student"], space.values.detach())
        torch.testing.assert_close(method.space.values.detach(), teacher)
    assert (teacher - method.source).abs().max() > 1e-3


def test_restoration_takes_values_back_to_the_source():
    free, restored = cotta(confidence=0.0), cotta(confidence=0.0, restore=0.4, seed=7)
    free.adapt(IMAGES)
    restored.adapt(IMAGES)
    drawn = torch.rand(len(free.space), generator=torch.Generator().manual_seed(7)) < 0.4
    expected = torch.where(drawn, free.source, free.state["student"])
    assert torch.equal(restored.state["student"], expected)
    assert not torch.equal(expected, free.state["student"])


def test_the_augmentations_go_on_where_a_saved_run_was():
    one, other = cotta(confidence=1.0), cotta(confidence=1.0)
    one.adapt(IMAGES)
    other.load_state_dict(one.state_dict())
    other.load(one.space.snapshot(), copy.deepcopy(one.domain_state()))
    assert torch.equal(one.adapt(IMAGES), other.adapt(IMAGES))
    assert not torch.equal(other.adapt(IMAGES), cotta(confidence=1.0).adapt(IMAGES))


def test_the_papers_settings_are_the_defaults():
    method = make_method(CottaImages, supports="images")
    assert (method.momentum, method.views) == (0.999, 32)


@pytest.mark.parametrize(("classes", "confidence"), [(10, 0.92), (100, 0.72), (1000, 0.1)])
def test_the_papers_confidence_goes_by_the_number_of_classes(classes, confidence):
    method = logit_method(CottaImages, classes=classes, views=1, augment=dict(clip=False))
    sure = torch.full((3, classes), -40.0)
    sure[:, 0] = 40.0
    method.adapt(sure)
    assert method.confidence == confidence
    assert logit_method(CottaImages, classes=classes, confidence=0.3).confidence == 0.3


def test_bad_options_are_explained():
    with pytest.raises(ReservoirError, match="views must be a whole number of at least 1"):
        cotta(views=0)
    with pytest.raises(ReservoirError, match="one of probabilities, logits, got 'labels'"):
        cotta(average="labels")
    with pytest.raises(ReservoirError, match=r"method\.augment has no option 'blurr'"):
        cotta(augment=dict(blurr=(0, 1)))
    with pytest.raises(ReservoirError, match=r"momentum must be a number in \[0, 1\]"):
        cotta(momentum=2)
