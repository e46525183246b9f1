import copy
import doctest
import io
import pickle
import subprocess
import sys
import threading
from functools import partial

import pytest
import torch
from elsewhere import sent
from host_reads import HostReads
from nested import same
from threads import call_from_threads, record_order
from torch import nn
from torch.utils.data import TensorDataset

from mmseg_reservoir.cls import (
    AdaptiveClassifier,
    SourceBatches,
    build_backbone,
    build_dataset,
    build_source,
    build_stream,
    classifier,
)
from mmseg_reservoir.config.presets import PRESETS
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Tent
from mmseg_reservoir.params import ParamSpace, norm_affine
from mmseg_reservoir.routing import OracleRouter
from mmseg_reservoir.style import Calibration

DEFAULT = dict(style=dict(weights="seeded"))
SEEDED = dict(preset="published", **DEFAULT)
EATA = dict(type="eata", d_margin=0.4, fisher_alpha=1.0)


def make_net(norm=nn.BatchNorm2d):
    torch.manual_seed(0)
    norm = norm(8) if norm is nn.BatchNorm2d else norm(2, 8)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), norm, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )


def batches(seed, count, scale=1.0, size=8):
    generator = torch.Generator().manual_seed(seed)
    return [scale * torch.rand(size, 3, 16, 16, generator=generator) for _ in range(count)]


SOURCE = batches(0, 6)
BRIGHT, DARK = batches(1, 4), batches(2, 4, scale=0.1)
STREAM = [*DARK[:2], *BRIGHT[:2], *DARK[2:], *BRIGHT[2:]]
LONG = [*DARK, *BRIGHT, *DARK]
"""The default preset routes by the evidence of four batches."""
both_presets = pytest.mark.parametrize(
    ("reservoir", "stream"), [(SEEDED, STREAM), (DEFAULT, LONG)], ids=["published", "default"]
)


def adaptive(method="tent", **options):
    return AdaptiveClassifier(make_net(), method, **options)


def test_the_example():
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder().find(classifier.AdaptiveClassifier, globs={}):
        runner.run(test)
    assert runner.summarize(verbose=False).attempted >= 8
    assert runner.failures == 0


def test_finds_domains_and_recognises_them():
    model = adaptive(reservoir=SEEDED, source=SOURCE)
    experts = []
    for images in STREAM:
        assert model(images).shape == (8, 4)
        experts.append(model.last.route.index)
    assert experts == [1, 1, 0, 0, 1, 1, 0, 0]
    assert model.last.k == 2


def test_without_a_preset_it_is_the_robust_one():
    model = adaptive(reservoir=DEFAULT, source=SOURCE)
    experts = []
    for images in LONG:
        assert model(images).shape == (8, 4)
        experts.append(model.last.route.index)
    assert experts[3:] == [1, 0, 0, 0, 0, 1, 1, 1, 1]
    # The source's domain needs no update. Batches that fit no domain are predicted, not learned.
    assert [*model.pipeline.report()["guard"]["experts"]] == [1]
    assert model.method.counts["updates"] == 5
    assert torch.equal(model.pipeline.reservoir.experts[0], model.pipeline.source)
    named = adaptive(reservoir=dict(preset="robust", **DEFAULT), source=SOURCE)
    assert named.plan.options == model.plan.options


def test_labels_beside_the_images_are_ignored_and_small_batches_left_out():
    labelled = [(images, torch.zeros(8)) for images in SOURCE] + [(SOURCE[0][:3], torch.zeros(3))]
    one = adaptive(reservoir=SEEDED, source=SOURCE)
    other = adaptive(reservoir=SEEDED, source=labelled, batch_size=8)
    assert torch.equal(one.calibration.styles, other.calibration.styles)
    assert one.pipeline.router.tau == other.pipeline.router.tau
    other(DARK[0][:3])  # an incomplete batch opens no domain
    assert other.last.k == 1


def test_the_source_is_read_until_there_are_batches_enough():
    images = torch.utils.data.TensorDataset(torch.cat(SOURCE))
    loader = torch.utils.data.DataLoader(images, batch_size=8, shuffle=True)
    torch.manual_seed(0)
    few = adaptive(reservoir=SEEDED, source=loader).calibration.styles
    many = adaptive(reservoir=SEEDED | {"calibration": {"batches": 20}}, source=loader)
    assert len(few) == 6
    assert len(many.calibration.styles) == 20
    assert len(torch.unique(many.calibration.styles, dim=0)) == 20
    with pytest.raises(ReservoirError, match=r"asks for 20 source batches.* the same 6 in every"):
        adaptive(reservoir=SEEDED | {"calibration": {"batches": 20}}, source=SOURCE)
    enough = adaptive(reservoir=SEEDED | {"calibration": {"batches": 4}}, source=SOURCE)
    assert len(enough.calibration.styles) == 4


@pytest.mark.parametrize("method", ["tent", "eata", "sar"])
@pytest.mark.parametrize(
    ("reservoir", "stream"), [(None, STREAM), (SEEDED, STREAM), (DEFAULT, LONG)]
)
def test_state_goes_through_a_file_without_source_images(method, reservoir, stream):
    model = adaptive(method, reservoir=reservoir, source=SOURCE)
    for images in stream:
        model(images)
    assert model.last.k == (1 if reservoir is None else 2)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = adaptive(method, reservoir=reservoir)
    if reservoir or method == "eata":
        with pytest.raises(ReservoirError, match="needs source images: give"):
            other(DARK[0])
    other.load_state_dict(torch.load(file, weights_only=True))
    for images in stream:
        assert torch.equal(other(images), model(images))
        assert other.last.route.index == model.last.route.index


def test_frozen_it_routes_and_learns_nothing():
    model = adaptive(reservoir=SEEDED, source=SOURCE)
    for images in STREAM:
        model(images)
    experts = model.pipeline.reservoir.experts.clone()
    model.freeze()
    first = [model(images) for images in STREAM]
    assert [model(images) is not None and model.last.route.index for images in STREAM] == [
        1, 1, 0, 0, 1, 1, 0, 0,
    ]  # fmt: skip
    assert torch.equal(model.pipeline.reservoir.experts, experts)
    assert torch.equal(model(STREAM[-1]), first[-1])
    model.freeze(False)(DARK[0])
    assert not torch.equal(model.pipeline.reservoir.experts, experts)


@both_presets
def test_without_gradients_it_makes_its_own_but_inference_mode_forbids_them(reservoir, stream):
    one, other = (adaptive(reservoir=reservoir, source=SOURCE) for _ in range(2))
    for images in stream:
        with torch.no_grad():
            logits = other(images)
        assert torch.equal(logits, one(images))
    assert other.method.counts["updates"] == one.method.counts["updates"] >= 5
    with torch.inference_mode(), pytest.raises(ReservoirError, match=r"use torch.no_grad\(\) or"):
        other(DARK[0])


@both_presets
def test_frozen_it_works_in_inference_mode(reservoir, stream):
    one, other = (adaptive(reservoir=reservoir, source=SOURCE) for _ in range(2))
    for model in (one, other):
        for images in stream:
            model(images)
        model.freeze()
    for images in stream:
        with torch.inference_mode():
            logits = other(images * 1.0)
        assert torch.equal(logits, one(images))
    assert torch.equal(other.freeze(False)(DARK[0]), one.freeze(False)(DARK[0]))


@both_presets
def test_a_state_from_another_device(reservoir, stream):
    model, other = adaptive(reservoir=reservoir, source=SOURCE), adaptive(reservoir=reservoir)
    for images in stream:
        model(images)
    other.net.load_state_dict(model.net.state_dict())
    other.set_extra_state(sent(model.get_extra_state()))
    assert torch.equal(other.calibration.styles, model.calibration.styles)
    for images in stream:
        assert torch.equal(other(images), model(images))


def test_images_may_be_normalised_already():
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    normalised = [(x - mean.view(3, 1, 1)) / std.view(3, 1, 1) for x in SOURCE]
    unit = adaptive(reservoir=SEEDED, source=SOURCE).calibration.styles
    for images in ("imagenet", (mean, std)):
        styles = adaptive(reservoir=SEEDED, source=normalised, images=images).calibration.styles
        torch.testing.assert_close(styles, unit, rtol=1e-4, atol=1e-4)


def test_batch_statistics_can_be_left_alone():
    inside = adaptive(statistics="running").net[1]
    assert inside.running_mean is not None
    assert adaptive().net[1].running_mean is None


def test_train_mode_is_not_entered():
    assert not any(module.training for module in adaptive().train().modules())


def test_a_calibration_stands_in_for_the_source_images():
    known = adaptive(reservoir=SEEDED, source=SOURCE).calibration
    model = adaptive(reservoir={**SEEDED, "calibration": Calibration(known.styles)})
    model(DARK[0])
    assert model.last.k == 2


def test_a_calibration_and_source_images_may_both_be_given(tmp_path):
    known = adaptive(reservoir=SEEDED, source=SOURCE).calibration
    file = known.save(tmp_path / "calibration.safetensors")
    for calibration in (known, dict(file=str(file))):
        reservoir = {**SEEDED, "calibration": calibration}
        model = adaptive(EATA, reservoir=reservoir, source=SOURCE)
        model(DARK[0])
        assert model.last.k == 2
        assert model.method.fisher is not None
        with pytest.raises(ReservoirError, match=r"Eata learns from .*source=\.\.\., too"):
            adaptive(EATA, reservoir=reservoir)
    with pytest.raises(ReservoirError, match=r"give it as reservoir=dict\(calibration="):
        adaptive(EATA, reservoir=SEEDED, source=known)


def test_oracle_needs_no_source():
    model = adaptive(reservoir=dict(router=dict(type="oracle")))
    model(DARK[0], domain="dark")
    assert model.last.route.index == 1


@pytest.mark.parametrize("wrap", [lambda x: {"logits": x}, lambda x: (x, None)])
def test_logits_are_found_inside_of_what_the_net_returns(wrap):
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = make_net()

        def forward(self, x):
            return wrap(self.inner(x))

    assert AdaptiveClassifier(Wrapped())(DARK[0]).shape == (8, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(source=iter(SOURCE), reservoir=SEEDED), "iterator, which can be read only once"),
        (dict(source=[["a"]] * 3, reservoir=SEEDED), "a batch of the source must be a tensor"),
        (dict(source=SOURCE[0], reservoir=SEEDED), r"source is one tensor \(8, 3, 16, 16\)"),
        (
            dict(source=TensorDataset(SOURCE[0]), reservoir=SEEDED),
            "data set .*DataLoader",
        ),
        (dict(source=[SOURCE[0][0]] * 3, reservoir=SEEDED), "gives single images .*DataLoader"),
        (dict(source=[255 * x for x in SOURCE], reservoir=SEEDED), "promises values in .0, 1."),
        (dict(images="bytes"), 'use "unit"'),
        (dict(reservoir=dict(k_maxx=3), source=SOURCE), "reservoir has no option 'k_maxx'"),
        (dict(reservoir=dict(calibration=dict(file="x"))), "no calibration file at x"),
    ],
)
def test_mistakes_are_explained(options, message):
    with pytest.raises(ReservoirError, match=message):
        adaptive(**options)


def test_wrong_batches_are_explained():
    model = adaptive(reservoir=SEEDED, source=SOURCE)
    with pytest.raises(ReservoirError, match="NaN or infinite"):
        model(DARK[0] * float("nan"))
    with pytest.raises(ReservoirError, match=r"\(N, 3, H, W\) .*got \(8, 1, 16, 16\)"):
        model(DARK[0][:, :1])
    with pytest.raises(ReservoirError, match=r"must return logits \(N, C\), got \(8, 8, 14, 14\)"):
        AdaptiveClassifier(make_net()[:3])(DARK[0])


@pytest.mark.parametrize("reservoir", [None, SEEDED, DEFAULT])
@pytest.mark.parametrize("frozen", [False, True])
def test_a_bad_batch_leaves_no_trace(reservoir, frozen):
    model = adaptive(reservoir=reservoir, source=SOURCE).freeze(frozen)
    size, before = model.batch_size, copy.deepcopy(model.get_extra_state())
    for bad, message in [(DARK[0] / 0, "NaN or infinite"), (255 * DARK[0], "divide by 255")]:
        with pytest.raises(ReservoirError, match=message):
            model(bad)
    assert same(model.get_extra_state(), before)
    assert (model.batch_size, model.last) == (size, None)


@pytest.mark.parametrize("statistics", ["batch", "running"])
def test_a_step_without_a_probe_reads_the_device_twice(statistics):
    """Once with the style, once when the update is judged: each read makes a GPU wait."""
    model = adaptive(reservoir=DEFAULT, source=SOURCE, statistics=statistics)
    guard = model.pipeline.guard
    counted = []
    for images in [*DARK, *BRIGHT, *DARK, *DARK[:3]]:
        probes = sum(watch.probes for watch in guard._health.values())
        net = [*model.net.parameters(), *model.net.buffers()]
        with HostReads([images, model.method.source, *net]) as reads:
            model(images)
        probed = sum(watch.probes for watch in guard._health.values()) > probes
        if not (probed or model.last.route.is_new):
            counted.append((model.last.route.index, len(reads.found)))
            assert len(reads.found) <= 2, reads.found
    assert (1, 2) in counted  # so that the count is not one of predictions only
    aligned = model.pipeline.alignment.domains[1] is not None
    assert aligned == (statistics == "running")


@pytest.mark.parametrize("batch", [[DARK[0]], DARK[0][0], DARK[0][:0], DARK[0].numpy()])
def test_what_is_no_batch_of_images(batch):
    for model in (adaptive(), adaptive(reservoir=SEEDED, source=SOURCE)):
        with pytest.raises(ReservoirError, match=r"must be a tensor \(N, 3, H, W\), got"):
            model(batch)


@pytest.mark.parametrize("reservoir", [None, SEEDED])
def test_it_is_neither_moved_nor_cast_nor_copied(reservoir):
    model = adaptive(reservoir=reservoir, source=SOURCE)
    assert model.to("cpu") is model
    assert model.float() is model
    before = model.method.space.snapshot()
    model(DARK[0])
    assert not torch.equal(model.method.space.values, before)
    with pytest.raises(ReservoirError, match="cannot be moved or cast: move the network"):
        model.double()
    model(DARK[1])  # nothing has changed
    with pytest.raises(ReservoirError, match="cannot be moved or cast"):
        model.to("meta")
    model.net.double()
    with pytest.raises(ReservoirError, match="was moved, cast, copied"):
        model(DARK[1])


def test_a_net_adapts_once():
    net = make_net()
    untouched = copy.deepcopy(net)
    AdaptiveClassifier(net)(DARK[0])
    for again in (net, copy.deepcopy(net)):
        with pytest.raises(ReservoirError, match=r"wrapped before.*copy.deepcopy"):
            AdaptiveClassifier(again)
    AdaptiveClassifier(untouched)(DARK[0])


@pytest.mark.parametrize("size", [4, 12])
def test_a_stream_of_other_sizes_than_the_sources_says_how_to_go_on(size):
    images = torch.cat(DARK)[:size]
    model = adaptive(reservoir=SEEDED, source=SOURCE)
    with pytest.raises(ReservoirError, match=f"set batch_size={size}, and the source is cut to it"):
        model(images)
    model = adaptive(reservoir=SEEDED, source=SOURCE, batch_size=size)
    assert len(model.calibration.styles) == 48 // size
    assert torch.equal(
        model.calibration.styles[0], model.pipeline.encoder(torch.cat(SOURCE)[:size])
    )
    model(images)
    assert model.last.k == 2


def test_a_first_batch_that_is_smaller_than_promised_is_told(caplog):
    model = adaptive(reservoir=SEEDED, source=SOURCE, batch_size=8)
    for images in DARK:
        model(images[:4])
    assert model.last.k == 1
    assert caplog.text.count("smaller batches open no domain") == 1


def test_few_source_batches_are_told(caplog):
    adaptive(reservoir=SEEDED, source=SOURCE)
    assert "only 6 source batches: the reservoir's threshold tau" in caplog.text
    caplog.clear()
    adaptive(reservoir=SEEDED, source=batches(0, 50))
    assert "source batches" not in caplog.text


def test_labels_may_stand_before_the_images():
    labelled = [(torch.zeros(8), images) for images in SOURCE]
    one, other = (adaptive(reservoir=SEEDED, source=s) for s in (SOURCE, labelled))
    assert torch.equal(one.calibration.styles, other.calibration.styles)


@pytest.mark.parametrize("method", ["source", "tent"])
def test_plain_methods_look_at_the_range_of_images_too(method):
    with pytest.raises(ReservoirError, match=r'images="unit" promises values in \[0, 1\]'):
        adaptive(method)(255 * DARK[0])
    with pytest.raises(ReservoirError, match=r"instead of \[0, 1\]: normalize them"):
        adaptive(method, images="imagenet")(255 * DARK[0])
    adaptive(method, images=(0.0, 1 / 255))(255 * DARK[0])


@pytest.mark.parametrize("preset", ["published", "stream", "robust"])
def test_black_images_are_not_learned_from(preset):
    source = [*SOURCE, *batches(5, 54)]
    model = adaptive(reservoir=dict(preset=preset, style=dict(weights="seeded")), source=source)
    model(DARK[0])
    before = model.pipeline.router.state_dict()
    model(torch.zeros(8, 3, 16, 16))
    after = model.pipeline.router.state_dict()
    assert str(before) == str(after)
    assert model.last.logits.shape == (8, 4)


def test_eata_updates_on_ten_classes_by_default():
    """The documentation's example: ImageNet's constants made one update in 120 batches."""
    net = build_backbone({"type": "digits_convnet", "pretrained": True})
    data = build_dataset({"type": "digits", "corruptions": ["fog"], "severity": 3})
    source = SourceBatches(build_source({"type": "digits"}), batch_size=50, count=200)
    model = AdaptiveClassifier(net, method="eata", source=source)
    stream = build_stream({"type": "csc", "rounds": 5, "batch_size": 50}, data)
    for batch in stream:
        model(batch.images)
    assert model.method.counts["updates"] == len(stream) == 20


def test_parts_may_be_ready_made():
    net = make_net()
    space = ParamSpace(net, norm_affine(net))
    method = Tent(net, space, partial(torch.optim.Adam, lr=0.1))
    model = AdaptiveClassifier(net, method, reservoir=dict(router=OracleRouter(k_max=3)))
    model(DARK[0], domain="dark")
    assert model.method is method
    assert model.last.route.index == 1


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (dict(method="eata", reservoir=SEEDED), "another method"),
        (dict(method=dict(type="tent", optimizer="SGD"), reservoir=SEEDED), "another optimizer"),
        (dict(reservoir=None), "another router"),
        (
            dict(reservoir={**SEEDED, "style": dict(weights="seeded", statistic="mean")}),
            "another style",
        ),
        (dict(reservoir=DEFAULT), "another router"),
    ],
)
def test_a_state_of_something_else_is_refused(other, message):
    saved = adaptive(reservoir=SEEDED, source=SOURCE).state_dict()
    with pytest.raises(ReservoirError, match=f"the state is of {message}"):
        adaptive(**other).load_state_dict(saved)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_state_of_every_preset_loads_safely(preset):
    options = dict(preset=preset, style=dict(weights="seeded"))
    model = adaptive(reservoir=options, source=[*SOURCE, *batches(5, 30)])
    for images in STREAM:
        model(images)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = adaptive(reservoir=options, source=[*SOURCE, *batches(5, 30)])
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(model(STREAM[0]), other(STREAM[0]))


def test_importing_it_needs_no_mm_package():
    code = (
        "import sys, mmseg_reservoir.cls; "
        "print([m for m in ('mmseg', 'mmcv', 'mmengine', 'mmpretrain') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_style_may_come_from_the_nets_own_layers():
    options = dict(preset="published", style=dict(type="model", taps=["0"]))
    model = adaptive(reservoir=options, source=SOURCE)
    experts = []
    for images in STREAM:
        model(images)
        experts.append(model.last.route.index)
    assert experts == [1, 1, 0, 0, 1, 1, 0, 0]
    assert model.calibration.groups == [8]


MANY = [images for seed in (3, 4) for scale in (1, 0.1) for images in batches(seed, 6, scale)]


@pytest.mark.parametrize("method", ["tent", EATA])
@pytest.mark.parametrize("frozen", [False, True])
def test_threads_get_the_answers_of_a_serial_run(method, frozen):
    model, serial = (adaptive(method, reservoir=SEEDED, source=SOURCE) for _ in range(2))
    for images in STREAM[:4]:  # two experts
        model(images)
        serial(images)
    model.freeze(frozen)
    serial.freeze(frozen)
    order = record_order(model.pipeline, "infer" if frozen else "step")
    answers = call_from_threads(model.step, MANY)
    assert len(order) == len(MANY)
    assert {answer.route.index for answer in answers} == {0, 1}
    for images in order:
        (answer,) = [answers[i] for i, one in enumerate(MANY) if one is images]
        expected = serial.step(images)
        assert answer.route.index == expected.route.index
        assert torch.equal(answer.logits, expected.logits)
    assert same(model.get_extra_state(), serial.get_extra_state())


def test_a_call_under_way_is_waited_for():
    model = adaptive(source=SOURCE)
    calls = [model.freeze, model.state_dict, lambda: model.load_state_dict(state)]
    calls += [lambda: model(DARK[0]), lambda: model.step(DARK[0])]
    model(DARK[0])
    state = copy.deepcopy(model.state_dict())
    for call in calls:
        thread = threading.Thread(target=call)
        with model.pipeline.lock:
            thread.start()
            thread.join(0.05)
            assert thread.is_alive()
        thread.join(10)
        assert not thread.is_alive()


def test_a_saved_state_is_not_changed_by_later_calls():
    model = adaptive(EATA, reservoir=DEFAULT, source=SOURCE)
    for images in LONG[:6]:
        model(images)
    saved = model.get_extra_state()
    before = copy.deepcopy(saved)
    for images in LONG[:6]:
        model(images)
    assert same(saved, before)


def test_a_step_returns_the_route_and_a_call_the_logits():
    model, other = (adaptive(reservoir=SEEDED, source=SOURCE) for _ in range(2))
    outcome = model.step(DARK[0])
    assert (outcome.route.index, outcome.k) == (1, 2)
    assert model.last is outcome
    assert torch.equal(other(DARK[0]), outcome.logits)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_it_can_still_be_copied_as_a_whole(copied):
    model = adaptive(reservoir=SEEDED, source=SOURCE)
    other = copied(model)
    assert same(other.get_extra_state(), model.get_extra_state())
    assert other.pipeline.lock is not model.pipeline.lock


def test_images_that_the_net_cannot_take_are_explained():
    half = make_net().to(torch.bfloat16)
    with pytest.raises(ReservoirError, match="parameters of bfloat16 and got images of"):
        AdaptiveClassifier(half, "eata", source=SOURCE)
    model = adaptive(reservoir=SEEDED, source=SOURCE)
    with pytest.raises(ReservoirError, match="images of 1x1 pixels are too small"):
        model(torch.rand(8, 3, 1, 1))
    assert model(DARK[0]).shape == (8, 4)


LOGITS = torch.rand(2, 7)


class Returning(nn.Module):
    def __init__(self, output):
        super().__init__()
        self.output = output

    def forward(self, images):
        return self.output


class Holder:
    logits = LOGITS


@pytest.mark.parametrize("output", [LOGITS, {"logits": LOGITS}, (LOGITS, None), Holder()])
def test_logits_are_found(output):
    assert classifier.classification_forward(Returning(output), BRIGHT[0]) is LOGITS


@pytest.mark.parametrize("output", [BRIGHT[0], {"scores": LOGITS}, "logits"])
def test_anything_else_is_refused(output):
    with pytest.raises(ReservoirError, match=r"Returning must return logits \(N, C\), got"):
        classifier.classification_forward(Returning(output), BRIGHT[0])
