"""One way from options to objects, for both tasks."""

import json
from functools import partial

import pytest
import torch
from small_net import make_classifier, make_method, make_net
from small_vit import make_vit

from mmseg_reservoir.config.builder import CLASSIFICATION, SEGMENTATION, RunBuilder, TaskContext
from mmseg_reservoir.config.presets import PRESETS
from mmseg_reservoir.core import DomainResetPipeline, ImageRange
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.methods import Source, Tent
from mmseg_reservoir.registry import find, table
from mmseg_reservoir.routing import OracleRouter
from mmseg_reservoir.style import Calibration

SEEDED = {"weights": "seeded", "size": (8, 8)}
TASKS = {
    "segmentation": (SEGMENTATION, make_net),
    "classification": (CLASSIFICATION, make_classifier),
}
both_tasks = pytest.mark.parametrize("task", TASKS)


def call(model, inputs):
    return model(inputs)


def source_batches(count=60):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(2, 3, 8, 8, generator=generator) for _ in range(count)]


def assemble(task="segmentation", model=None, source=None, **options):
    """Build as a run does; the part that adapts is not called backbone here."""
    kind, make = TASKS[task]
    model = make() if model is None else model
    if not isinstance(options.get("method"), Tent):
        options["params"] = {"under": "", **options.get("params", {})}
    plan = RunBuilder(kind, **options)
    place = TaskContext(model, call, ImageRange("imagenet"), source or source_batches())
    pipeline = plan.assemble(place)
    plan.calibrate(pipeline, place)
    return pipeline


def with_reservoir(**options):
    style = {**SEEDED, **options.pop("style", {})}
    reservoir = {"preset": "published", "style": style, **options}
    return assemble(method=make_method(), reservoir=reservoir)


# All mistakes are reported before anything is built.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "tant"}, r"unknown adaptation method 'tant' .*did you mean 'tent'"),
        ({"method": {"lr": 1}}, "method has no type"),
        ({"method": {"type": "tent", "learning_rate": 1}}, "method has no option 'learning_rate'"),
        (
            {"method": {"type": "eta", "margin": "wide"}},
            "margin must be a number, got 'wide'",
        ),
        ({"method": {"type": "tent", "optimizer": {"type": "Adan"}}}, "unknown optimizer 'Adan'"),
        ({"method": {"type": "tent", "optimizer": {"rl": 1}}}, "method.optimizer .* 'rl'"),
        ({"method": {"type": "tent", "optimizer": {"lr": -1}}}, "method.optimizer: Adam .* -1"),
        ({"method": {"type": "tent", "optimizer": {"lr": "fast"}}}, "method.optimizer: Adam"),
        ({"method": {"type": "tent", "optimizer": {"lr": 1e39}}}, "Adam does not take that"),
        ({"params": {"type": "layers"}}, "unknown params.type 'layers'.*norm_affine"),
        ({"params": {"type": "lora", "rang": 2}}, "params has no option 'rang' .*mean 'rank'"),
        ({"statistics": "bach"}, "statistics cannot be 'bach'"),
        ({"reservoir": True}, "options or a preset's name, got True"),
        ({"reservoir": {"preset": "papre"}}, "unknown preset 'papre' .*did you mean 'paper'"),
        ({"reservoir": {"kmax": 3}}, "reservoir has no option 'kmax' .*did you mean 'k_max'"),
        ({"reservoir": {"k_max": "many"}}, "k_max must be"),
        (
            {"reservoir": {"k_max": 0}},
            "reservoir.k_max must be a whole number .* got 0",
        ),
        ({"reservoir": {"memory": {"type": "lifo"}}}, "unknown memory 'lifo'.*fifo"),
        ({"reservoir": {"memory": {"capacty": 3}}}, "reservoir.memory .*did you mean 'capacity'"),
        (
            {"reservoir": {"memory": {"capacity": -5}}},
            "memory.capacity must be .* 1, got -5",
        ),
        ({"reservoir": {"clustering": {"type": "dbscan"}}}, "unknown clustering 'dbscan'"),
        ({"reservoir": {"clustering": {"type": "kmeans", "lr": 1}}}, "clustering has no option"),
        ({"reservoir": {"clustering": {"distance": "l1"}}}, "unknown distance 'l1'"),
        (
            {"reservoir": {"clustering": {"temperature": "hot"}}},
            "above 0, or 'sqrt_d', got 'hot'",
        ),
        ({"reservoir": {"router": {"type": "random"}}}, "unknown router 'random'"),
        (
            {"reservoir": {"router": {"quantile": 2.0}}},
            r"router.quantile must be a number in \(0, 1\]",
        ),
        ({"reservoir": {"router": {"quantile": 0}}}, r"must be a number in \(0, 1\], got 0"),
        ({"reservoir": {"router": {"tau": 3}}}, "reservoir.router has no option 'tau'"),
        ({"reservoir": {"router": {"assign": "befor"}}}, "router.assign must be one of before"),
        ({"reservoir": {"pipeline": {"type": "single"}}}, "unknown pipeline 'single'"),
        ({"reservoir": {"pipeline": {"init": "top5"}}}, "unknown initialization of .*'top5'.*top3"),
        ({"reservoir": {"pipeline": {"predict": "now"}}}, "pipeline.predict must be one of"),
        ({"reservoir": {"style": {"statistic": "median"}}}, "unknown style statistic 'median'"),
        ({"reservoir": {"style": {"wieghts": "x"}}}, "reservoir.style .*did you mean 'weights'"),
        ({"reservoir": {"calibration": {"quantile": 1}}}, "calibration has no option 'quantile'"),
        ({"reservoir": {"preset": "stream", "space": {"var": []}}}, "space has no option 'var'"),
        (
            {"reservoir": {"preset": "stream", "memory": {"capacity": -5}}},
            "memory has no effect .*'segment'",
        ),
        (
            {"reservoir": {"preset": "stream", "clustering": {"type": "x"}}},
            "clustering has no effect",
        ),
        (
            {"reservoir": {"space": {"all": ["whiten"]}}},
            r"space has no effect .*'style'.*\(segment\)",
        ),
        ({"reservoir": {"guard": "lables"}}, "unknown guard 'lables' .*did you mean 'labels'"),
        (
            {"reservoir": {"guard": {"evry": 4}}},
            r"reservoir.guard .*mean 'every'\?\); valid: every, least, margin, momentum",
        ),
        (
            {"reservoir": {"guard": {"every": "often"}}},
            "guard.every must be a whole number",
        ),
        (
            {"reservoir": {"guard": {"momentum": 2.0}}},
            r"momentum must be a number in \[0, 1\)",
        ),
        ({"reservoir": {"pooling": "mean"}}, "unknown pooling 'mean'; valid: evidence"),
        ({"reservoir": {"pooling": {"no": 4}}}, r"reservoir.pooling has no option 'no'.*valid: n0"),
        (
            {"reservoir": {"pooling": {"n0": "all"}}},
            "pooling.n0 must be .* got 'all'",
        ),
        (
            {"reservoir": {"pooling": {"n0": -1.0}}},
            "of at least 0, got -1.0",
        ),
        *(
            (
                {"reservoir": {part: {}, "pipeline": {"type": "reset"}}},
                rf"reservoir.{part} has no effect on the pipeline 'reset'.*\({part}=None\)",
            )
            for part in ("guard", "pooling", "trigger")
        ),
        ({"reservoir": {"trigger": "setled"}}, "unknown trigger 'setled' .*mean 'settled'"),
        ({"reservoir": {"trigger": {"n": 2}}}, "reservoir.trigger has no option 'n'.*valid: first"),
        (
            {"reservoir": {"trigger": {"type": "every", "n": 0}}},
            "trigger.n must be .* 1, got 0",
        ),
        ({"reservoir": {"trigger": True}}, r"trigger=None, or trigger=dict\(type='settled'\)"),
        ({"reservoir": {"pipeline": {"guard": {}}}}, "reservoir.pipeline has no option 'guard'"),
    ],
)
@both_tasks
def test_mistakes_are_reported_before_anything_is_built(task, options, message):
    if isinstance(options.get("reservoir"), dict):
        options = {"reservoir": {"preset": "published", **options["reservoir"]}}
    with pytest.raises(ReservoirError, match=message):
        RunBuilder(TASKS[task][0], **{"method": "tent", **options})


def test_a_method_for_the_other_task_is_refused():
    with pytest.raises(ReservoirError, match=r"'cotta' is for segmentation.*use 'cotta_images'"):
        RunBuilder(CLASSIFICATION, "cotta")
    with pytest.raises(ReservoirError, match="'rotta' is for classification, not for pixels"):
        RunBuilder(SEGMENTATION, "rotta")


def test_resolved_options_are_plain_and_hold_every_default():
    plan = RunBuilder(SEGMENTATION, {"type": "cotta", "restore": 0.5}, reservoir="stream", seed=7)
    options = json.loads(json.dumps(plan.options))
    assert options["seed"] == options["method"]["seed"] == 7
    assert options["method"]["restore"] == 0.5
    assert options["method"]["confidence"] == 0.69
    assert options["method"]["optimizer"]["lr"] == 7.5e-6
    assert options["params"] == {
        "type": "norm_affine",
        "under": "backbone",
        "types": ["LayerNorm", "BatchNorm", "GroupNorm"],
        "skip": [],
    }
    assert options["statistics"] == 0
    assert options["reservoir"]["router"]["patience"] == 10.0
    assert options["reservoir"]["space"]["mean"] == ["standardize", "squash"]
    assert "reservoir.router: type=segment, run=4" in plan.describe()
    assert RunBuilder(CLASSIFICATION, "tent").options["reservoir"] is None
    assert RunBuilder(CLASSIFICATION, "tent").options["method"]["optimizer"]["lr"] == 1e-3


def test_the_tasks_differ_in_their_defaults_alone():
    one, other = (
        RunBuilder(SEGMENTATION, "tent").options,
        RunBuilder(CLASSIFICATION, "tent").options,
    )
    assert one.pop("statistics") != other.pop("statistics")
    assert one.pop("params") != other.pop("params")
    assert one["method"].pop("optimizer") != other["method"].pop("optimizer")
    assert one == other


@pytest.mark.parametrize("preset", ["robust", "stream"])
def test_batches_are_cropped_unless_the_options_set_a_crop(preset):
    def crop(task, **style):
        options = {"preset": preset, "style": style} if style else preset
        return RunBuilder(task, "tent", reservoir=options).options["reservoir"]["style"]["crop"]

    assert crop(SEGMENTATION) is None, "a frame that comes alone is needed whole"
    assert crop(CLASSIFICATION) == 0.5
    assert crop(CLASSIFICATION, size=64) == 0.5
    assert crop(CLASSIFICATION, crop=None) is None
    published = RunBuilder(CLASSIFICATION, "tent", reservoir="published").options["reservoir"]
    assert published["style"]["crop"] is None, "as published"


# What is made.


@both_tasks
def test_builds_the_method_over_the_selected_parameters(task):
    optimizer = {"type": "SGD", "lr": 0.25}
    method = assemble(task, method={"type": "tent", "optimizer": optimizer}).method
    assert type(method) is Tent
    assert type(method.optimizer) is torch.optim.SGD
    assert method.optimizer.param_groups[0]["lr"] == 0.25
    assert all(name.endswith(("weight", "bias")) for name in method.space.names)
    everything = assemble(task, method="tent", params={"type": "all"}).method.space
    assert len(everything) == sum(p.numel() for p in TASKS[task][1]().parameters())
    own = assemble(task, method={"type": "tent", "optimizer": partial(torch.optim.Adam, lr=2.0)})
    assert own.method.optimizer.param_groups[0]["lr"] == 2.0
    assert type(assemble(task, method="source").method) is Source


@pytest.mark.parametrize(
    ("task", "method", "statistics", "kept"),
    [
        ("classification", "source", None, True),
        ("classification", "norm", None, False),
        ("classification", "tent", None, False),
        ("classification", "tent", "running", True),
        ("classification", "rotta", None, True),
        ("segmentation", "tent", None, True),
        ("segmentation", "tent", "batch", False),
        ("segmentation", "norm", None, False),
    ],
)
def test_statistics_of_batch_norm_follow_user_then_method_then_task(task, method, statistics, kept):
    net = TASKS[task][1]()
    assemble(task, net, method=method, statistics=statistics)
    assert (net[4].running_mean is not None) == kept


@both_tasks
def test_the_router_learns_from_the_source_before_the_method(task, monkeypatch):
    passes_made = []

    class Source(list):
        def __iter__(self):
            passes_made.append("pass")
            return super().__iter__()

    original = find("method", "eata").prepare

    def prepare(self, source):
        passes_made.append("method")
        original(self, source)

    monkeypatch.setattr(find("method", "eata"), "prepare", prepare)
    reservoir = {"preset": "published", "style": SEEDED}
    assemble(task, source=Source(source_batches()), method="eata", reservoir=reservoir)
    assert passes_made == ["pass", "method", "pass"]


def test_safeguards_are_built_from_options():
    guard = {"every": 4, "margin": 0.25}
    pipeline = with_reservoir(guard=guard, pooling={"n0": 7.0})
    assert type(pipeline.guard) is find("guard", "labels")
    assert (pipeline.guard.every, pipeline.guard.margin, pipeline.guard.momentum) == (4, 0.25, 0.8)
    assert type(pipeline.pooling) is find("pooling", "evidence")
    assert pipeline.pooling.n0 == 7
    by_name = with_reservoir(guard="labels", pooling="evidence")
    assert by_name.guard.every == find("guard", "labels")().every
    assert by_name.pooling.n0 == find("pooling", "evidence")().n0


def test_a_trigger_is_built_from_options_and_in_no_preset():
    every = with_reservoir(preset="robust", trigger={"type": "every", "n": 3}).trigger
    assert (type(every), every.n) == (find("trigger", "every"), 3)
    assert type(with_reservoir(trigger={}).trigger) is find("trigger", "settled")
    assert with_reservoir(preset="robust").trigger is None
    plan = RunBuilder(SEGMENTATION, "tent", reservoir={"trigger": {"type": "every"}})
    assert plan.options["reservoir"]["trigger"] == {"type": "every", "n": 2}


@pytest.mark.parametrize("part", ["guard", "pooling"])
def test_each_safeguard_can_be_left_out(part):
    other = {"guard": "pooling", "pooling": "guard"}[part]
    pipeline = with_reservoir(**{part: {}, other: None})
    assert getattr(pipeline, part) is not None
    assert getattr(pipeline, other) is None
    robust = with_reservoir(preset="robust", **{part: None})
    assert getattr(robust, part) is None
    assert getattr(robust, other) is not None
    published = with_reservoir()
    assert getattr(published, part) is None


def test_resolved_options_include_the_safeguards():
    reservoir = {"preset": "published", "guard": {"every": 4}, "pooling": {"n0": 7.0}}
    plan = RunBuilder(SEGMENTATION, "tent", reservoir=reservoir)
    options = json.loads(json.dumps(plan.options))["reservoir"]
    assert options["guard"] == {
        "type": "labels",
        "every": 4,
        "momentum": 0.8,
        "margin": None,
        "least": 0.03,
        "waver": 0.05,
    }
    assert options["pooling"] == {"type": "evidence", "n0": 7.0}
    assert not {"guard", "pooling"} & set(options["pipeline"])
    assert "reservoir.guard: type=labels, every=4" in plan.describe()
    none = RunBuilder(SEGMENTATION, "tent", reservoir={**reservoir, "guard": None, "pooling": None})
    assert not {"guard", "pooling"} & set(none.options["reservoir"])


@both_tasks
def test_the_guard_learns_from_the_source_after_the_method(task, monkeypatch):
    called = []
    for kind, name in (("method", "eata"), ("guard", "labels")):
        cls = find(kind, name)

        def prepare(self, *args, kind=kind, original=cls.prepare):
            called.append(kind)
            original(self, *args)

        monkeypatch.setattr(cls, "prepare", prepare)
    reservoir = {"preset": "published", "style": SEEDED, "guard": {}}
    pipeline = assemble(task, method="eata", reservoir=reservoir)
    assert called == ["method", "guard"]
    # A look leaves no trace.
    assert torch.equal(pipeline.method.space.values, pipeline.source)


def test_the_guard_learns_how_the_source_model_labels_the_source():
    pipeline = with_reservoir(guard={"least": 1e-6, "momentum": 0.0})
    entropies = []
    for images in source_batches():
        labels = make_net()(images).argmax(1).flatten()
        entropies.append(torch.special.entr(labels.bincount() / labels.numel()).sum())
    spread = float(torch.stack(entropies).std())
    assert spread > 1e-3
    assert pipeline.guard.margin == pytest.approx(spread, rel=1e-5)


def test_a_margin_that_is_given_spares_the_look_at_the_source():
    passes_made = []

    class Source(list):
        def __iter__(self):
            passes_made.append("pass")
            return super().__iter__()

    for guard, passes in (({"margin": 0.5}, 1), ({}, 2)):
        passes_made.clear()
        reservoir = {"preset": "published", "style": SEEDED, "guard": guard}
        assemble(source=Source(source_batches()), method="tent", reservoir=reservoir)
        assert len(passes_made) == passes


def test_guard_and_alignment_share_one_pass_over_the_source():
    passes_made = []

    class Source(list):
        def __iter__(self):
            passes_made.append("pass")
            return super().__iter__()

    reservoir = {"preset": "published", "style": SEEDED, "guard": {}, "alignment": {}}
    pipeline = assemble(source=Source(source_batches()), method="tent", reservoir=reservoir)
    assert passes_made == ["pass", "pass"]  # the first one is that of the styles
    assert pipeline.guard.margin is not None
    assert list(pipeline.alignment.reference.layers) == ["1", "4"]


def test_a_calibration_file_brings_the_reference_of_the_alignment(tmp_path):
    options = {"preset": "published", "style": SEEDED, "alignment": {}}
    params = {"under": ""}
    place = TaskContext(make_net(), call, ImageRange("imagenet"), source_batches())
    plan = RunBuilder(SEGMENTATION, method="align", params=params, reservoir=options)
    first = plan.assemble(place)
    file = plan.calibrate(first, place).save(tmp_path / "calibration.safetensors")
    options |= {"calibration": {"file": str(file)}}
    place = TaskContext(make_net(), call, ImageRange("imagenet"))
    plan = RunBuilder(SEGMENTATION, method="align", params=params, reservoir=options)
    other = plan.assemble(place)
    plan.calibrate(other, place)
    assert torch.equal(other.alignment.reference.mean, first.alignment.reference.mean)


def test_seeds_reach_method_params_and_router_unless_these_have_their_own():
    memory = {"type": "fifo"}
    options = {"reservoir": {"preset": "published", "style": SEEDED, "memory": memory}}

    def made(run, **own):
        method = {"type": "rotta", **own}
        pipeline = assemble("classification", method=method, seed=run, **options)
        return (
            pipeline.method.generator.initial_seed(),
            pipeline.router.memory._generator.initial_seed(),
        )

    assert made(5) == (5, 5)
    assert made(5, seed=2) == (2, 5)

    def prompts(run, **own):
        params = {"type": "prompt", **own}
        return assemble("classification", make_vit(), method="tent", params=params, seed=run)

    assert torch.equal(prompts(5).source, prompts(0, seed=5).source)
    assert not torch.equal(prompts(5).source, prompts(2).source)


def test_augmentations_know_how_the_images_were_normalised():
    augment = assemble("classification", method="rotta").method.augment
    assert augment.range.mean.flatten().tolist() == pytest.approx([0.485, 0.456, 0.406])
    own = assemble("classification", method={"type": "rotta", "augment": {"mean": 0.1}})
    assert own.method.augment.range.mean.flatten().tolist() == pytest.approx([0.1])
    assert own.method.augment.range.std.flatten().tolist() == pytest.approx([0.229, 0.224, 0.225])


def test_parts_may_be_objects(stream):
    method, router = make_method(), OracleRouter(k_max=5)
    pipeline = assemble(method=method, reservoir={"router": router})
    assert (pipeline.method, pipeline.router) == (method, router)
    with pytest.raises(ReservoirError, match="leave out params and statistics"):
        RunBuilder(SEGMENTATION, method, statistics="batch")

    def brightness(images):
        return images.mean(dim=(2, 3)).mean(dim=0)

    styles = torch.stack([brightness(images) for images in source_batches()])
    reservoir = {"preset": "published", "style": brightness, "calibration": Calibration(styles)}
    pipeline = assemble(method=make_method(), source=[], reservoir=reservoir)
    assert pipeline.router.tau == pytest.approx(Calibration(styles).threshold())
    assert pipeline.step(stream[1]).k == 2


# Presets and ablations.


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_runs(stream, preset):
    pipeline = with_reservoir(preset=preset)
    for x in stream:
        outcome = pipeline.step(x)
    assert torch.isfinite(outcome.logits).all()
    assert outcome.k > 1


def test_presets_differ_where_the_paper_and_its_code_differ():
    paper, published = with_reservoir(preset="paper"), with_reservoir(preset="published_code")
    assert paper.router.clustering.temperature == pytest.approx(320**0.5)
    assert published.router.clustering.temperature == 1
    assert (paper.predict_after, published.predict_after) == (True, False)
    assert type(paper.router.memory) is find("memory", "reservoir")
    assert type(published.router.memory) is find("memory", "published")
    assert paper.init is find("init", "mi_fresh")
    assert published.init is find("init", "mi")


def followed(stream, **options):
    """What comes of a stream that alternates between two styles, three times over."""
    pipeline = with_reservoir(**options)
    trace = []
    for i, x in enumerate([*stream] * 3):
        outcome = pipeline.step(x, domain="ab"[i % 2])
        trace += [outcome.k, outcome.route.weights, outcome.logits]
    state = pipeline.state_dict()
    return trace, state


def same(one, other):
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


# Every one beside what it differs from: a default that is another option is named.
ABLATIONS = [
    *({"memory": {"type": kind, "capacity": 4}} for kind in ("fifo", "replace", "none")),
    {"memory": {"capacity": 1}},
    {"memory": {"source_styles": 3, "capacity": 4}},
    *({"clustering": {"type": kind}} for kind in ("sinkhorn", "kmeans")),
    *({"clustering": {"distance": kind}} for kind in ("cosine", "kl")),
    {"clustering": {"temperature": "sqrt_d"}},
    {"clustering": {"lr": 0.1}},
    {"clustering": {"weight_decay": 0.5}},
    {"clustering": {"decay_towards": "zero"}},
    *({"pipeline": {"init": kind}} for kind in ("mi_fresh", "top3", "source")),
    {"pipeline": {"ensemble": False}},
    {"pipeline": {"predict": "after"}},
    {"pipeline": {"progressive": True}},
    {"pipeline": {"one_hot": 0.5}},
    {"pipeline": {"type": "reset"}},
    {"router": {"quantile": 0.2}},
    {"router": {"assign": "after"}},
    {"router": {"learn_from": "memory"}},
    {"router": {"type": "oracle"}},
    {"router": {"type": "segment"}},
    {"k_max": 2},
    *({"style": {"statistic": kind}} for kind in ("mean", "var", "mean_var", "gram")),
    {"style": {"taps": [0]}},
]
BASE = {
    # Small enough to be full, and two centroids that compete: or options would have no effect.
    "memory": {"type": "reservoir", "capacity": 4},
    "clustering": {"type": "information", "temperature": 3.0},
    "router": {"type": "style", "quantile": 0.9},
}


@pytest.fixture(scope="module")
def plain():
    torch.manual_seed(1)
    stream = [torch.randn(2, 3, 8, 8) * (1 if i % 2 else 6) + 3 * (i % 2) for i in range(8)]
    return stream, followed(stream, **BASE)


@pytest.mark.parametrize("options", ABLATIONS, ids=str)
def test_every_ablation_is_one_option_and_has_an_effect(plain, options):
    stream, expected = plain
    merged = {**BASE}
    if options.get("router", {}).get("type", "style") != "style":
        merged = {}
    for group, value in options.items():
        base = merged.get(group, {})
        keep = isinstance(value, dict) and value.get("type", base.get("type")) == base.get("type")
        merged[group] = {**base, **value} if keep else value
    trace, state = followed(stream, **merged)
    assert all(torch.isfinite(logits).all() for logits in trace[2::3])
    assert not same([trace, state], list(expected))


def test_reset_pipeline_restarts_in_every_domain(stream):
    pipeline = with_reservoir(pipeline={"type": "reset"}, router={"quantile": 0.9})
    assert isinstance(pipeline, DomainResetPipeline)
    source = pipeline.method.space.snapshot()
    starts = []
    adapt = pipeline.method.adapt

    def spy(inputs):
        starts.append(torch.equal(pipeline.method.space.snapshot(), source))
        return adapt(inputs)

    pipeline.method.adapt = spy
    indices = [pipeline.step(x).route.index for x in [*stream[::2], *stream[1::2]]]
    changed = [a != b for a, b in zip([0, *indices], indices, strict=False)]
    assert starts == [c or i == 0 for i, c in enumerate(changed)]
    assert sum(starts) < len(starts)


def test_every_registered_part_is_an_ablation_or_the_default():
    def chosen(group, option="type"):
        default = {"memory": "reservoir", "clustering": "information", "pipeline": "reservoir"}
        found = {a[group][option] for a in ABLATIONS if option in a.get(group, {})}
        return found | {default.get(group)}

    assert set(table("memory")) - chosen("memory") == {"published"}  # a preset's
    assert set(table("clustering")) == chosen("clustering")
    assert {"mi", *chosen("pipeline", "init")} - {"reservoir"} == set(table("init"))


def test_groups_inherited_from_a_package_have_a_scope_that_is_no_option():
    scope = {"_scope_": "mypackage"}
    reservoir = {"preset": "published", "router": {"type": "style", **scope}, **scope}
    optimizer = {"type": "Adam", "lr": 0.1, **scope}
    groups = {"method": {"type": "tent", "optimizer": optimizer, **scope}, "reservoir": reservoir}
    plan = RunBuilder(CLASSIFICATION, **groups, params={"type": "norm_affine", **scope})
    assert "_scope_" not in json.dumps(plan.options)
    assert plan.options["method"]["optimizer"]["lr"] == 0.1
    plan.replace(reservoir=reservoir)
    assert plan.options["reservoir"]["router"]["type"] == "style"
