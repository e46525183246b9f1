"""Alignment: moments of a domain are corrected towards those of the source."""

import copy

import pytest
import torch
from elsewhere import sent
from small_net import make_classifier, make_method, make_net
from small_reservoirs import batches, make_router, style
from torch import nn

from mmseg_reservoir.core import Alignment, EvidencePooling, ReservoirPipeline
from mmseg_reservoir.core.moments import channel_moments
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Align, RDumb, Tent
from mmseg_reservoir.routing import OracleRouter


def measured(net, source, **options):
    """An alignment of a net that has measured source batches, and the forward function."""
    alignment = Alignment(**options)
    forward = alignment.attach(net, net)
    with torch.no_grad(), alignment.measuring():
        for images in source:
            forward(images)
    return alignment, forward


def aligned_pipeline(method=Tent, router=None, supports="pixels", **options):
    made = make_method(method, supports=supports)
    router = OracleRouter(6) if router is None else router
    pipeline = ReservoirPipeline(
        made,
        router,
        style if router.needs_style else None,
        alignment=Alignment(**options),
        unfit="predict",
    )
    with pipeline.alignment.measuring():
        for images in batches("clear", 20, seed=99):
            pipeline.predict_source(images)
    return pipeline


class Tokens(nn.Module):
    """LayerNorm of tokens (N, HW, C), as in a transformer."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.norm, self.head = nn.Linear(3, 8), nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, images):
        tokens = self.norm(self.embed(images.flatten(2).transpose(1, 2)))
        return self.head(tokens).transpose(1, 2).unflatten(2, images.shape[-2:])


class LayerNorm2d(nn.LayerNorm):
    """LayerNorm over the channels of maps (N, C, H, W), as in ConvNeXt."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


NORMS = {
    "batch": lambda: nn.BatchNorm2d(8),
    "plain batch": lambda: nn.BatchNorm2d(8, affine=False),
    "group": lambda: nn.GroupNorm(2, 8),
    "instance": lambda: nn.InstanceNorm2d(8, affine=True),
    "layer": lambda: LayerNorm2d(8),
}


def net_of(norm):
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), NORMS[norm](), nn.ReLU(), nn.Conv2d(8, 5, 1)).eval()


@pytest.mark.parametrize("norm", [*NORMS, "tokens"])
@torch.no_grad()
def test_full_strength_gives_the_output_the_moments_of_the_source(norm):
    net = Tokens().eval() if norm == "tokens" else net_of(norm)
    layer = "norm" if norm == "tokens" else "1"
    alignment, forward = measured(net, batches("clear", 10), strength=1.0, reach=2.0, prior=0)
    seen = []
    net.get_submodule(layer).register_forward_hook(lambda m, i, o: seen.append(o))
    alignment.add(parent=0)
    dark = 0.6 * batches("clear", 1, seed=5, size=40)[0] + 0.5
    forward(dark)
    axis = 2 if norm == "tokens" else 1
    reference = alignment.reference
    with alignment.expert(1, dark):
        forward(dark)
    plain, aligned = ([m.mean(0) for m in channel_moments(output, axis)] for output in seen)
    expected = reference.mean, reference.logvar
    for before, after, wanted in zip(plain, aligned, expected, strict=True):
        if norm != "instance":  # whose moments do not depend on the image
            assert (before - wanted).abs().max() > 0.05
        torch.testing.assert_close(after, wanted, atol=2e-3, rtol=2e-3)


@torch.no_grad()
def test_the_correction_is_that_of_the_equations():
    net = net_of("batch")
    alignment, forward = measured(net, batches("clear", 10), kappa=2.0, reach=0.8, prior=10)
    alignment.add(0)
    (dark,) = batches("dark", 1, seed=5, size=6)
    net_output = net[:2](dark)
    with alignment.expert(1, dark):
        forward(dark)
    alignment.settle(1, 6)
    mean, logvar = (m.mean(0) for m in channel_moments(net_output, 1))
    ref = alignment.reference
    trust = 6 / 16
    m_d = ref.mean + trust * (mean - ref.mean)
    v_d = ref.logvar + trust * (logvar - ref.logvar)
    r_a = ((m_d - ref.mean) ** 2 / ref.mean_spread).mean()
    r_b = ((v_d - ref.logvar) ** 2 / ref.logvar_spread).mean()
    a, b = r_a / (r_a + 2), r_b / (r_b + 2)  # the first layer: full depth
    gain = (-b * (v_d - ref.logvar).clamp(-3, 3) / 2).exp()
    shape = (1, -1, 1, 1)
    expected = (net_output - m_d.view(shape)) * gain.view(shape)
    expected += (m_d - a * (m_d - ref.mean)).view(shape)
    gain, shift = alignment.corrections(1)["1"]
    actual = net_output * gain.view(shape) + shift.view(shape)
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    report = alignment.report()["experts"][1]
    assert report["strength"]["1"] == pytest.approx([float(a), float(b)], abs=1e-4)


@torch.no_grad()
def test_strength_falls_with_depth_and_ends_at_the_reach():
    net = nn.Sequential(*(nn.Sequential(nn.Conv2d(3, 3, 1), nn.GroupNorm(1, 3)) for _ in range(4)))
    alignment, forward = measured(net, batches("clear", 10), reach=0.5, kappa=1e-9)
    alignment.add(0)
    (dark,) = batches("dark", 1)
    with alignment.expert(1, dark):
        forward(dark)
    alignment.settle(1, 2)
    strengths = alignment.report()["experts"][1]["strength"]
    assert list(strengths) == ["0.1", "1.1"]  # at 0 and 1/4; those at 1/2 and 3/4 are beyond it
    assert strengths["0.1"] == pytest.approx([1.0, 1.0], abs=1e-3)
    assert strengths["1.1"] == pytest.approx([0.5, 0.5], abs=1e-3)


def test_outside_of_an_expert_the_model_is_the_plain_one():
    net = make_net()
    plain = copy.deepcopy(net)
    alignment, forward = measured(net, batches("clear", 10))
    alignment.add(0)
    (dark,) = batches("dark", 1)
    with alignment.expert(1, dark):
        assert not torch.equal(forward(dark), plain(dark))
    torch.testing.assert_close(forward(dark), plain(dark), atol=0, rtol=0)
    with alignment.expert(0, dark):  # the source's expert
        torch.testing.assert_close(forward(dark), plain(dark), atol=0, rtol=0)


@torch.no_grad()
def test_only_the_first_pass_over_the_batch_itself_moves_the_moments():
    alignment, forward = measured(make_net(), batches("clear", 10))
    alignment.add(0)
    (dark,) = batches("dark", 1)
    with alignment.expert(1, dark):
        forward(dark.flip(-1))
        torch.testing.assert_close(alignment.domains[1].mean, alignment.reference.mean)
        forward(dark)
        moved = alignment.domains[1].mean.clone()
        assert not torch.equal(moved, alignment.reference.mean)
        forward(dark)
    with alignment.expert(1):
        forward(dark)
    torch.testing.assert_close(alignment.domains[1].mean, moved, atol=0, rtol=0)


@torch.no_grad()
def test_windows_of_one_image_count_once():
    """A model that is run window by window learns the mean over its windows."""
    whole, window = measured(make_net(), batches("clear", 10))[0], None
    net = make_net()
    window = Alignment()

    def slide(images):
        return torch.cat([net(part) for part in images.chunk(2, -1)], -1)

    forward = window.attach(net, slide)
    window.reference = whole.reference
    window.add(0)
    (dark,) = batches("dark", 1)
    with window.expert(1, dark):
        forward(dark)
    first = window.reference.where("1")
    halves = [channel_moments(make_net()[:2](part), 1)[0].mean(0) for part in dark.chunk(2, -1)]
    torch.testing.assert_close(window.domains[1].mean[first], sum(halves) / 2)


@torch.no_grad()
def test_a_batch_that_is_not_finite_leaves_no_trace_in_the_moments():
    alignment, forward = measured(make_net(), batches("clear", 10))
    alignment.add(0)
    broken = torch.full((1, 3, 8, 8), torch.nan)
    with alignment.expert(1, broken):
        forward(broken)
    torch.testing.assert_close(alignment.domains[1].mean, alignment.reference.mean, atol=0, rtol=0)


def test_the_input_can_be_aligned_alone():
    net = make_net()
    plain = copy.deepcopy(net)
    source = batches("clear", 10)
    alignment, forward = measured(net, source, layers="input", strength=1.0, reach=2.0, prior=0)
    assert list(alignment.reference.layers) == ["input"]
    alignment.add(0)
    (dark,) = batches("dark", 1, size=40)
    with torch.no_grad(), alignment.expert(1, dark):
        logits = forward(dark)
    ref, shape = alignment.reference, (1, 3, 1, 1)
    mean, logvar = (m.mean(0).view(shape) for m in channel_moments(dark, 1))
    step = (logvar - ref.logvar.view(shape)).clamp(-3, 3)
    corrected = (dark - mean) * (-step / 2).exp() + ref.mean.view(shape)
    torch.testing.assert_close(logits, plain(corrected), atol=1e-4, rtol=1e-4)


def test_gradients_reach_the_parameters_through_the_correction():
    pipeline = aligned_pipeline(Tent)
    (dark,) = batches("dark", 1)
    for _ in range(3):
        pipeline.step(dark, domain="dark")
    assert pipeline.method.counts["updates"] == 3
    assert not torch.equal(pipeline.reservoir.experts[1], pipeline.source)


@pytest.mark.parametrize("supports", ["pixels", "images"])
def test_align_moves_nothing_but_moments(supports):
    pipeline = aligned_pipeline(Align, supports=supports)
    (dark,) = batches("dark", 1)
    first = pipeline.step(dark, domain="dark").logits
    for _ in range(5):
        last = pipeline.step(dark, domain="dark").logits
    assert not torch.equal(first, last)
    assert not last.is_inference()
    assert torch.equal(pipeline.reservoir.experts[1], pipeline.source)
    assert pipeline.alignment.domains[1].images == 12
    frozen = pipeline.infer(dark, domain="dark").logits
    torch.testing.assert_close(frozen, pipeline.infer(dark, domain="dark").logits)
    assert pipeline.alignment.domains[1].images == 12


def test_align_in_the_domain_of_the_source_is_the_source_model():
    pipeline = aligned_pipeline(Align, make_router("segment"))
    for images in batches("clear", 6, seed=3):
        torch.testing.assert_close(
            pipeline.step(images).logits, pipeline.predict_source(images), atol=0, rtol=0
        )


def test_batches_that_fit_no_expert_are_predicted_and_found_the_next_domain():
    pipeline = aligned_pipeline(Tent, make_router("segment"))
    for images in batches("clear", 4, seed=3):
        pipeline.step(images)
    updates = pipeline.method.counts["updates"]
    outcomes = [pipeline.step(images) for images in batches("dark", 4, seed=4)]
    waited = [outcome for outcome in outcomes if not outcome.route.fits]
    assert waited, "the first batches of a new domain fit none"
    opened = next(i for i, outcome in enumerate(outcomes) if outcome.route.is_new)
    assert pipeline.method.counts["updates"] == updates + len(outcomes) - len(waited)
    # What waited and what was learned since: none is lost, none counts twice.
    assert pipeline.alignment.domains[1].images == 2 * len(outcomes)
    assert opened == len(waited)


def test_the_published_pipeline_learns_from_batches_that_fit_no_expert():
    pipeline = ReservoirPipeline(make_method(), make_router("segment"), style)
    for images in [*batches("clear", 4), *batches("dark", 4)]:
        pipeline.step(images)
    assert pipeline.method.counts["updates"] == 8


def test_the_expert_of_the_source_can_be_kept():
    """It predicts as the source model, and takes no part in what others learn."""
    pipeline = ReservoirPipeline(
        make_method(supports="images"),
        make_router("segment"),
        style,
        pooling=EvidencePooling(),
        source="keep",
    )
    for images in batches("clear", 4):
        outcome = pipeline.step(images)
        assert torch.equal(outcome.logits, pipeline.predict_source(images))
    for images in batches("dark", 12):
        pipeline.step(images)
    experts = pipeline.reservoir.experts
    assert torch.equal(experts[0], pipeline.source)
    assert not torch.equal(experts[1], pipeline.source)


def test_methods_that_need_every_batch_adapt_in_the_domain_of_the_source():
    method = make_method(RDumb, margin=10.0, d_margin=2.0)
    pipeline = ReservoirPipeline(method, make_router("segment"), style, source="keep")
    for images in batches("clear", 3):
        pipeline.step(images)
    assert method.counts["updates"] == 3


@pytest.mark.parametrize("method", [Tent, Align])
def test_a_restored_pipeline_continues_bit_for_bit(method):
    stream = [x for look in ("dark", "flat") * 2 for x in batches(look, 8, seed=7)]
    one = aligned_pipeline(method, make_router("segment"))
    for images in stream[:14]:
        one.step(images)
    two = aligned_pipeline(method, make_router("segment"))
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    for images in stream[14:]:
        a, b = one.step(images), two.step(images)
        assert torch.equal(a.logits, b.logits)
        assert (a.route.index, a.k) == (b.route.index, b.k)
    assert one.report() == two.report()


def test_a_reset_expert_has_the_moments_of_the_source():
    pipeline = aligned_pipeline(Align)
    for images in batches("dark", 3):
        pipeline.step(images, domain="dark")
    learned = 3 * len(batches("dark", 1)[0])
    assert pipeline.expert_state(0) == {}  # the source's
    assert pipeline.expert_state(1) == {"reach": 0.5, "aligned": learned}
    pipeline.reset_expert(1)
    assert pipeline.expert_state(1) == {"reach": 0.5, "aligned": 0}
    domain = pipeline.alignment.domains[1]
    assert domain.images == 0
    assert torch.equal(domain.mean, pipeline.alignment.reference.mean)


@torch.no_grad()
def test_a_trial_never_predicts_and_is_taken_only_where_labels_agree_better():
    pipeline = aligned_pipeline(Align)
    twin = aligned_pipeline(Align, reach=0.5)  # without trials
    taken = []
    for images in batches("dark", 22, seed=3):
        before = pipeline.alignment.domains[1] if len(pipeline.alignment.domains) > 1 else None
        level = None if before is None else before.level
        logits = pipeline.step(images, domain="dark").logits
        if not taken:
            assert torch.equal(logits, twin.step(images, domain="dark").logits)
        taken += [] if level in (None, pipeline.alignment.domains[1].level) else [level]
    (event,) = pipeline.alignment.events  # batches 10 to 21: eight to settle, four to judge
    assert (event["from"], event["to"], event["images"]) == (0.5, 1.0, 42)
    assert event["taken"] == (event["gain"] > 0)


def test_without_source_images_batch_norm_is_the_reference():
    net = net_of("batch")
    with torch.no_grad():
        net[1].weight.uniform_(0.5, 2)
        net[1].bias.normal_()
    alignment = Alignment()
    alignment.take_reference(net, None)
    torch.testing.assert_close(alignment.reference.mean, net[1].bias)
    variance = net[1].weight.square()
    torch.testing.assert_close(alignment.reference.logvar.exp(), variance, atol=1e-5, rtol=1e-4)


def test_a_model_without_any_reference_says_so_and_runs_plain(caplog):
    net = net_of("layer")
    plain = copy.deepcopy(net)
    alignment = Alignment()
    forward = alignment.attach(net, net)
    alignment.take_reference(net, None)
    assert "no alignment: Sequential has no BatchNorm statistics" in caplog.text
    assert "reservoir.calibration.file" in caplog.text
    alignment.add(0)
    (dark,) = batches("dark", 1)
    with alignment.expert(1, dark):
        torch.testing.assert_close(forward(dark), plain(dark), atol=0, rtol=0)
    with alignment.waiting(dark, 1):
        torch.testing.assert_close(forward(dark), plain(dark), atol=0, rtol=0)


def test_a_saved_reference_of_another_model_is_not_taken():
    one, _ = measured(net_of("group"), batches("clear", 4))
    other = Alignment()
    other.take_reference(net_of("batch"), {**one.reference.state_dict(), "layers": {"7": 8}})
    torch.testing.assert_close(other.reference.mean, net_of("batch")[1].bias)
    same = Alignment()
    same.take_reference(net_of("group"), one.reference.state_dict())
    torch.testing.assert_close(same.reference.mean, one.reference.mean)


def test_half_precision_maps_keep_their_type():
    net = make_classifier(torch.bfloat16)
    source = [x.bfloat16() for x in batches("clear", 10)]
    alignment, forward = measured(net, source)
    alignment.add(0)
    dark = batches("dark", 1)[0].bfloat16()
    with torch.no_grad(), alignment.expert(1, dark):
        assert forward(dark).dtype == torch.bfloat16
    assert alignment.domains[1].mean.dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(kappa=0.0), "Alignment.kappa must be a number above 0, got 0.0"),
        (dict(reach=-1.0), "reach must be a number above 0, or None, got -1.0"),
        (dict(window=0), "window must be a whole number of at least 1, got 0"),
        (dict(strength=1.5), "strength must be a number in (0, 1], or None, got 1.5"),
        (dict(layers="norm"), "layers must be one of norms, input, both, got 'norm'"),
    ],
)
def test_wrong_options_are_refused(options, words):
    with pytest.raises(ReservoirError, match=words.replace("(", r"\(")):
        Alignment(**options)


def test_a_reference_from_another_device_comes_to_that_of_the_model():
    alignment, _ = measured(make_net(), batches("clear", 10))
    saved = alignment.reference.state_dict()
    other, net = Alignment(), make_net()
    other.attach(net, net)
    other.take_reference(net, sent(saved))
    for name, value in vars(other.reference).items():
        assert value == saved[name] if name == "layers" else torch.equal(value, saved[name])
