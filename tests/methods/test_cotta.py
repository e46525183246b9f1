import copy
from functools import partial

import pytest
import torch
from small_net import make_method, make_net
from torch.nn.functional import cross_entropy, interpolate

from mmseg_reservoir.core import ReservoirPipeline
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Cotta
from mmseg_reservoir.methods.cotta import RATIOS, View, make_views, scaled
from mmseg_reservoir.params import ParamSpace, norm_affine
from mmseg_reservoir.params.normalization import use_batch_statistics
from mmseg_reservoir.routing import OracleRouter

IMAGE = torch.randn(1, 3, 8, 12, generator=torch.Generator().manual_seed(3))
# An untrained net is sure of nothing: a threshold that splits its pixels into halves.
HALF = 0.236


def cotta(**options):
    return make_method(Cotta, **{"confidence": HALF, **options})


def views_by_hand(net, image, size):
    """Softmax of the 14 views at the label size, in the order ratio x flip."""
    found = []
    for ratio in (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0):
        h, w = int(8 * ratio + 0.5), int(12 * ratio + 0.5)
        view = interpolate(image, size=(h, w), mode="bilinear") if ratio != 1 else image
        for flip in (False, True):
            logits = net(view.flip(3)).flip(3) if flip else net(view)
            found.append(interpolate(logits, size=size, mode="bilinear").softmax(1))
    return torch.stack(found)


def moved(method, by=0.3):
    """Parameters of a teacher that is no longer the source."""
    noise = torch.randn(len(method.space), generator=torch.Generator().manual_seed(5))
    return method.source + by * noise


def net_at(vector):
    net = make_net()
    space = ParamSpace(net, norm_affine(net))
    space.load(vector)
    return net


@pytest.mark.parametrize("scale", [1.0, 2.0])
@torch.no_grad()
def test_composite_label_is_single_view_where_the_anchor_is_confident_else_the_mean(scale):
    method = cotta(label_scale=scale)
    teacher = moved(method)
    method.load(teacher, method.fresh_domain_state())
    size = (int(8 * scale), int(12 * scale))
    views = views_by_hand(net_at(teacher), IMAGE, size)
    anchor = interpolate(make_net()(IMAGE), size=size, mode="bilinear").softmax(1)
    mask = anchor.amax(1) > HALF
    assert 0.2 < mask.float().mean() < 0.8
    expected = torch.where(mask, views[4].argmax(1), views.mean(0).argmax(1))
    for prediction in (method.predict(IMAGE), method.adapt(IMAGE)):
        assert prediction.shape[-2:] == size
        assert torch.equal(prediction.argmax(1), expected)
    # Both kinds of pixels have a say.
    assert not torch.equal(expected, views[4].argmax(1))
    assert not torch.equal(expected, views.mean(0).argmax(1))


@torch.no_grad()
def test_other_scores_are_the_view_mean_and_the_single_view():
    teacher = moved(cotta())
    views = views_by_hand(net_at(teacher), IMAGE, (8, 12))
    for score, expected in [("mean", views.mean(0)), ("single", views[4])]:
        for call in ("predict", "adapt"):
            method = cotta(score=score)
            method.load(teacher, method.fresh_domain_state())
            torch.testing.assert_close(getattr(method, call)(IMAGE).softmax(1), expected)


def test_student_steps_on_the_cross_entropy_and_the_teacher_follows():
    method = cotta(lr=0.05, momentum=0.9)
    teacher = method.source.clone()
    net = make_net()
    space = ParamSpace(net, norm_affine(net))
    optimizer = torch.optim.Adam([space.values], lr=0.05)
    for _ in range(3):
        with torch.no_grad():
            views = views_by_hand(net_at(teacher), IMAGE, (8, 12))
            mask = make_net()(IMAGE).softmax(1).amax(1) > HALF
            label = torch.where(mask, views[4].argmax(1), views.mean(0).argmax(1))
        space.zero_grad()
        cross_entropy(net(IMAGE), label).backward()
        optimizer.step()
        teacher = 0.9 * teacher + 0.1 * space.values.detach()
        method.adapt(IMAGE)
        torch.testing.assert_close(method.state["student"], space.values.detach())
        torch.testing.assert_close(method.space.values.detach(), teacher)
    assert (teacher - method.source).abs().max() > 1e-3


def test_the_label_is_taken_at_the_label_size():
    method = cotta(label_scale=2.0)
    with torch.no_grad():
        label = method.predict(IMAGE).argmax(1)
    assert label.shape == (1, 16, 24)
    net = make_net()
    space = ParamSpace(net, norm_affine(net))
    optimizer = torch.optim.Adam([space.values], lr=0.05)
    cross_entropy(interpolate(net(IMAGE), size=(16, 24), mode="bilinear"), label).backward()
    optimizer.step()
    method.adapt(IMAGE)
    torch.testing.assert_close(method.state["student"], space.values.detach())


def test_restoration_brings_back_what_the_private_generator_draws():
    free, restored = cotta(), cotta(restore=0.4, seed=7)
    torch.manual_seed(0)
    free.adapt(IMAGE)
    torch.manual_seed(1)  # the global generator plays no part
    restored.adapt(IMAGE)
    drawn = torch.rand(len(free.space), generator=torch.Generator().manual_seed(7)) < 0.4
    assert 0 < drawn.sum() < len(drawn)
    expected = torch.where(drawn, free.source, free.state["student"])
    assert torch.equal(restored.state["student"], expected)
    assert not torch.equal(expected, free.state["student"])


def test_a_restored_run_resumes_with_the_generator_where_it_was():
    one, other = cotta(restore=0.4), cotta(restore=0.4)
    one.adapt(IMAGE)
    other.load_state_dict(one.state_dict())
    other.load(one.space.snapshot(), copy.deepcopy(one.domain_state()))
    one.adapt(IMAGE)
    other.adapt(IMAGE)
    assert torch.equal(one.state["student"], other.state["student"])


def test_anchor_sees_one_view_and_nothing_is_computed_twice():
    net, calls = make_net(), []
    space = ParamSpace(net, norm_affine(net))

    def forward(x):
        calls.append(torch.is_grad_enabled())
        return net(x)

    Cotta(forward, space, partial(torch.optim.Adam, lr=1e-3)).adapt(IMAGE)
    # The teacher on the image, its mirror image, both at six other scales; anchor, student.
    assert calls == [False] * (2 + 6 + 1) + [True]


def test_views_at_once_say_what_they_say_one_by_one():
    torch.testing.assert_close(
        cotta(score="mean").predict(IMAGE), cotta(score="mean", at_once=False).predict(IMAGE)
    )


def test_where_images_change_each_other_no_views_are_batched():
    net = make_net()
    use_batch_statistics(net)
    space = ParamSpace(net, norm_affine(net))
    assert not Cotta(net, space, partial(torch.optim.Adam, lr=1e-3)).at_once


def test_all_networks_stay_in_eval_mode_and_only_the_space_changes():
    method = cotta()
    net = method.forward
    before = {k: v.clone() for k, v in net.state_dict().items() if k not in method.space.names}
    method.adapt(IMAGE)
    assert not any(module.training for module in net.modules())
    assert all(torch.equal(net.state_dict()[k], v) for k, v in before.items())


def test_teacher_and_student_of_an_expert_rest_while_another_one_adapts():
    pipeline = ReservoirPipeline(cotta(), OracleRouter(4))
    for domain in ("fog", "night"):
        pipeline.step(IMAGE, domain=domain)
    fog = (
        pipeline.reservoir.experts[1].clone(),
        pipeline.reservoir.checkout(1)[1]["student"].clone(),
    )
    night = pipeline.reservoir.experts[2].clone()
    for _ in range(2):
        pipeline.step(IMAGE + 1, domain="night")
    assert torch.equal(pipeline.reservoir.experts[1], fog[0])
    assert torch.equal(pipeline.reservoir.checkout(1)[1]["student"], fog[1])
    assert not torch.equal(pipeline.reservoir.experts[2], night)
    assert not torch.equal(
        pipeline.reservoir.experts[2], pipeline.reservoir.checkout(2)[1]["student"]
    )


def test_a_cloned_expert_inherits_the_student():
    method = cotta()
    method.adapt(IMAGE)
    state = method.inherit_domain_state(method.domain_state())
    assert torch.equal(state["student"], method.state["student"])
    assert state["student"] is not method.state["student"]


def test_bad_options_are_explained():
    with pytest.raises(ReservoirError, match="one of composite, mean, single, got 'labels'"):
        cotta(score="labels")
    with pytest.raises(ReservoirError, match="ratios is empty"):
        cotta(ratios=())


def test_the_original_views_are_seven_scales_plain_and_mirrored():
    views = make_views()
    assert len(views) == 14
    assert views[4] == View(1.0, flip=False)  # the one that is taken where the anchor is sure
    assert {view.ratio for view in views} == set(RATIOS)
    assert sum(view.flip for view in views) == 7
    assert len(make_views((1.0, 2.0), flip=False)) == 2


def test_sizes_are_rounded_half_up():
    assert scaled((5, 10), 0.5) == (3, 5)
    assert scaled((540, 960), 1.75) == (945, 1680)
    assert scaled((1, 1), 0.1) == (1, 1)


def test_a_mirrored_view_is_mirrored_back():
    inputs = torch.randn(1, 3, 4, 6)
    seen = []

    def forward(x):
        seen.append(x)
        return x

    probabilities = View(1.0, flip=True).probabilities(forward, inputs, (4, 6))
    assert torch.equal(seen[0], inputs.flip(-1))
    torch.testing.assert_close(probabilities, inputs.softmax(1))


def test_logits_are_brought_to_the_label_size_before_the_softmax():
    inputs = torch.randn(1, 3, 4, 6)
    sizes = []

    def forward(x):
        sizes.append(tuple(x.shape[-2:]))
        return x[..., ::2, ::2]

    probabilities = View(1.5).probabilities(forward, inputs, (8, 12))
    assert sizes == [(6, 9)]
    small = interpolate(inputs, size=(6, 9), mode="bilinear")[..., ::2, ::2]
    expected = interpolate(small, size=(8, 12), mode="bilinear").softmax(1)
    torch.testing.assert_close(probabilities, expected)
