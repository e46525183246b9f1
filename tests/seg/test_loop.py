import json
import re
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from mmengine.registry import DATASETS, LOOPS
from mmengine.runner import Runner
from stream_run import TINY, data_options, run, seeded_reservoir
from torch.utils.data import BatchSampler, Dataset

from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.runs.style_sample import read_styles


@DATASETS.register_module()
class NumbersForLoop(Dataset):
    """The name of a domain and a number for each of its images."""

    metainfo = {"classes": ("road", "sky")}

    def __init__(self, condition, n=12):
        self.condition, self.n = condition, n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return self.condition, index


class Recorder:
    """Stands for the runner, its model and its evaluator; ``seen`` is what was tested."""

    build_dataloader = staticmethod(Runner.build_dataloader)

    def __init__(self, seed=0):
        self.seed = seed
        self.model = self
        self.seen = []
        self.visualizer = SimpleNamespace()
        self.logger, self.metrics = Mock(), []
        self.dataset_meta = None
        self.metrics = [SimpleNamespace(results=[])]
        self.on_hook = lambda name: None
        self.draws, self.generators = [], []

    def build_evaluator(self, evaluator):
        return self

    def call_hook(self, name, **about):
        if name == "before_test":
            self.generators.append(torch.get_rng_state())
        self.on_hook(name)
        if name == "before_test_epoch":
            self.seen.append([])

    def eval(self):
        return self

    def test_step(self, batch):
        self.seen[-1] += list(zip(*batch, strict=True))
        self.draws.append(float(torch.rand(())))
        self.generators.append(torch.get_rng_state())
        return batch

    def process(self, data_samples, data_batch):
        pass

    def evaluate(self, size):
        return {"mIoU": 50.0}


def loop_of(runner, dataloader=(), **options):
    loader = dict(
        batch_size=5,
        num_workers=0,
        sampler=dict(type="DefaultSampler", shuffle=False),
        dataset=dict(type="NumbersForLoop"),
    )
    cfg = dict(type="RecurringTestLoop", **{"rounds": 2, "domains": ["fog", "night"], **options})
    given = dict(
        runner=runner, dataloader={**loader, **dict(dataloader)}, evaluator=dict(type="Any")
    )
    return LOOPS.build(cfg, default_args=given)


def orders(seed=0, **options):
    """The numbers of every visit in their order; fog, night, fog, night."""
    runner = Recorder(seed)
    loop_of(runner, **options).run()
    assert [{name for name, _ in visit} for visit in runner.seen] == 2 * [{"fog"}, {"night"}]
    numbers = [[int(number) for _, number in visit] for visit in runner.seen]
    assert all(sorted(visit) == list(range(12)) for visit in numbers)
    return numbers


def test_images_come_as_they_are_stored():
    assert orders() == orders(shuffle="never") == [list(range(12))] * 4


def test_one_order_per_domain_for_all_rounds():
    fog, night, fog_again, night_again = orders(shuffle="once")
    assert fog == fog_again
    assert night == night_again
    assert list(range(12)) != fog != night


def test_another_order_at_each_visit():
    assert len({tuple(order) for order in orders(shuffle="visit")}) == 4


@pytest.mark.parametrize("shuffle", ["once", "visit"])
def test_orders_depend_on_the_seed_alone(shuffle):
    first = orders(seed=3, shuffle=shuffle)
    assert orders(seed=3, shuffle=shuffle) == first
    # The sampler adds a visit to the seed; no order of a seed must be one of the next one's.
    for seed in range(4, 8):
        assert not {tuple(o) for o in first} & {tuple(o) for o in orders(seed, shuffle=shuffle)}


def test_orders_hold_for_a_batch_sampler():
    batches = dict(type=BatchSampler, drop_last=False)
    options = dict(shuffle="visit", dataloader=dict(batch_sampler=batches))
    assert orders(**options) == orders(shuffle="visit")


@pytest.mark.parametrize(
    ("shuffle", "workers"), [("never", 0), ("once", 0), ("visit", 0), ("visit", 1)]
)
@pytest.mark.parametrize(("visit", "batches"), [(0, 0), (1, 1), (2, 0), (2, 2), (2, 3), (4, 0)])
def test_the_stream_goes_on_where_it_was_saved(shuffle, workers, visit, batches):
    whole, rest = Recorder(), Recorder()
    options = dict(shuffle=shuffle, dataloader=dict(num_workers=workers))
    loop_of(whole, **options).run()
    expected = whole.draws[3 * visit + batches :]
    loop = loop_of(rest, **options)

    def restore(name):
        if name == "before_test":
            scores = {f"{i}": 10.0 for i in range(visit)}
            counted = [[batches]]
            skipped = [{"round": 1, "domain": "fog", "image": "a.png", "cause": "it is empty"}]
            state = {"visit": visit, "batches": batches, "scores": scores, "skipped": skipped}
            state |= {"also": [], "metrics": counted, "strange": [1]}
            loop.load_state_dict(state)
            assert loop.state_dict() == state
            torch.set_rng_state(whole.generators[3 * visit + batches])

    rest.on_hook = restore
    scores = loop.run()
    left = [visit[5 * batches * (i == 0) :] for i, visit in enumerate(whole.seen[visit:])]
    assert rest.seen == left
    assert rest.draws == expected  # random numbers are those of the unbroken run
    assert scores["mIoU"] == pytest.approx((10 * visit + 50 * (4 - visit)) / 4)


def test_never_leaves_the_sampler_as_it_is():
    mixed = dict(sampler=dict(type="DefaultSampler", shuffle=True))
    first, *others = orders(dataloader=mixed)
    assert first != list(range(12))
    assert others == [first] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(rounds="two"), "test_cfg.rounds must be a whole number of at least 1, got 'two'"),
        (dict(rounds=1.5), "test_cfg.rounds must be a whole number of at least 1"),
        (dict(rounds=True), "test_cfg.rounds must be a whole number of at least 1"),
        (dict(rounds=0), "rounds must be a whole number of at least 1, got 0"),
        (dict(domains=[]), "test_cfg.domains is empty"),
        (dict(domains="fog"), "must be a list of domains, got 'fog'"),
        (dict(domains=3), "must be a list of domains, got 3"),
        (dict(domains=["fog", "fog"]), "each domain of test_cfg.domains needs a unique name"),
        (dict(shuffle="always"), "test_cfg.shuffle must be one of never, once, visit"),
        (dict(shuffle=True), "test_cfg.shuffle must be one of never, once, visit"),
        (
            dict(frame_rate="fast"),
            "test_cfg.frame_rate must be a number .* got 'fast'",
        ),
        (
            dict(frame_rate=0),
            "frame_rate must be a number of frames per second above 0, or None, got 0",
        ),
        (dict(frame_rate=10, missed="skip"), "test_cfg.missed must be one of answer, drop"),
        (dict(frame_rate=10, step_seconds=-1), "step_seconds must be seconds, 0 or more, got -1"),
        (dict(missed="drop"), "belong to test_cfg.frame_rate"),
        (dict(step_seconds=0.1), "belong to test_cfg.frame_rate"),
        (dict(on_bad_image="ignore"), "on_bad_image must be one of stop, skip, got 'ignore'"),
        (
            dict(round=2),
            r"no option 'round' \(did you mean 'rounds'\?\); valid: domains, extra_eval_sets,",
        ),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ReservoirError, match=message) as error:
        loop_of(Recorder(), **options)
    assert "\n" not in str(error.value)


def test_visits_come_round_by_round_in_order(source_run):
    results = source_run.results
    assert [(v["round"], v["domain"]) for v in results["visits"]] == [
        (1, "fog"),
        (1, "night"),
        (2, "fog"),
        (2, "night"),
    ]
    images = [(r["round"], r["domain"], r["image"]) for r in results["routes"]]
    assert len(images) == 12
    assert images == sorted(images, key=lambda x: (x[0], x[1]))  # fog before night, then by name


def test_without_adaptation_every_round_is_the_same(source_run):
    results = source_run.results
    first, second = results["visits"][:2], results["visits"][2:]
    assert [v["mIoU"] for v in first] == [v["mIoU"] for v in second]
    assert results["updates"] == {
        "updates": 0,
        "skipped": 12,
        "not_finite": 0,
        "rollbacks": 0,
        "restarts": 0,
    }


def test_adaptation_goes_on_over_visits(minicity, tmp_path):
    weights = TINY.parents[1] / "checkpoints" / "segformer_tiny_minicity.safetensors"
    option = "method.optimizer.lr=0.001"
    results = run("segformer-tiny_tent", minicity, tmp_path, option, flags=[weights])
    assert results["visits"][0]["mIoU"] > 10  # the weights are the trained ones
    assert results["visits"][0]["mIoU"] != results["visits"][2]["mIoU"]
    assert results["updates"]["updates"] == 12


def test_domains_may_be_dicts(minicity, tmp_path):
    config = tmp_path / "config.py"
    config.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_source.py')!r}\n"
        f"test_cfg = dict(rounds=1, domains=[dict(name='day', condition='clear', split='val'),"
        " 'snow'])\n"
    )
    command = [str(config), "--random-weights", f"--work-dir={tmp_path / 'w'}", "--cfg-options"]
    assert test_tta.main([*command, *data_options(minicity)[:2]]) == 0
    visits = json.loads((tmp_path / "w/results.json").read_text())["visits"]
    assert [(v["domain"], v["n_images"]) for v in visits] == [("day", 2), ("snow", 3)]


def test_labels_are_optional_in_any_dataset(minicity, tmp_path):
    plain = dict(type="BaseSegDataset", data_root=str(minicity), img_suffix="_rgb_anon.png")
    images = dict(img_path="rgb_anon/snow/val")
    domains = [
        dict(plain, name="missing", data_prefix=dict(images, seg_map_path="ann")),
        dict(plain, name="none", data_prefix=dict(images, seg_map_path=None)),
        dict(plain, name="left out", data_prefix=images, test_mode=True),
        dict(name="images", type="UnlabeledImages", data_root=f"{minicity}/rgb_anon/clear/val"),
        dict(name="labelled", condition="snow", split="val"),
    ]
    config = tmp_path / "config.py"
    config.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_source.py')!r}\n"
        f"test_cfg = dict(rounds=1, domains={domains!r})\n"
    )
    command = [str(config), "--random-weights", f"--work-dir={tmp_path / 'w'}"]
    command += [f"--show-dir={tmp_path / 'show'}", "--cfg-options", *data_options(minicity)[:2]]
    assert test_tta.main(command) == 0
    visits = json.loads((tmp_path / "w/results.json").read_text())["visits"]
    assert [visit["n_images"] for visit in visits] == [1, 1, 1, 2, 1]
    assert [visit["mIoU"] is None for visit in visits] == [True] * 4 + [False]
    predicted = [p.parent.name for p in (tmp_path / "w/predictions").rglob("*.png")]
    assert sorted(predicted) == ["images", "images", "left out", "missing", "none"]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (
            dict(img_path="rgb_anon/snow/val"),
            r"'dusk', a BaseSegDataset, has no images \*: set d",
        ),
        (
            dict(img_path="none"),
            r"'dusk' has no folder .*none: set data_root, data_prefix=dict\(img",
        ),
    ],
)
def test_a_domain_without_images_names_what_to_set(minicity, tmp_path, capsys, place, message):
    domain = dict(name="dusk", type="BaseSegDataset", data_root=str(minicity), data_prefix=place)
    config = tmp_path / "config.py"
    config.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_source.py')!r}\n"
        f"test_cfg = dict(rounds=1, domains=[{domain!r}])\n"
    )
    assert test_tta.main([str(config), "--random-weights", f"--work-dir={tmp_path / 'w'}"]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_dataset_without_classes_gets_those_of_the_model(minicity, tmp_path):
    dataset = dict(
        type="BaseSegDataset",
        data_root=str(minicity),
        img_suffix="_rgb_anon.png",
        data_prefix=dict(img_path="rgb_anon/snow/val", seg_map_path=None),
        pipeline=[dict(type=name) for name in ("LoadImageFromFile", "PackSegInputs")],
    )
    config = tmp_path / "config.py"
    config.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_source.py')!r}\n"
        f"test_dataloader = dict(dataset=dict(_delete_=True, **{dataset!r}))\n"
        "model = dict(decode_head=dict(num_classes=5))\n"
        "test_cfg = dict(rounds=1, domains=[dict(name='snow')])\n"
    )
    command = [str(config), "--random-weights", f"--work-dir={tmp_path / 'w'}"]
    assert test_tta.main([*command, f"--show-dir={tmp_path / 'show'}"]) == 0
    results = json.loads((tmp_path / "w/results.json").read_text())
    assert list(results["palette"]) == [f"class {index}" for index in range(5)]
    assert list((tmp_path / "show").rglob("*_overlay.png"))


@pytest.mark.slow
def test_works_with_mmengines_own_logger_and_under_autocast(minicity, tmp_path):
    config = tmp_path / "config.py"
    config.write_text(
        f"_base_ = {str(TINY / 'segformer-tiny_tent.py')!r}\n"
        "default_hooks = dict(logger=dict(_delete_=True, type='LoggerHook', interval=1))\n"
        "test_cfg = dict(fp16=True)\n"
    )
    results = run(config, minicity, tmp_path)
    assert results["complete"]
    assert results["updates"]["updates"] == 12


def test_sets_beside_the_stream_are_tested_after_every_round():
    runner = Recorder()
    loop = loop_of(
        runner, extra_eval_sets=["clear", dict(name="dusk", condition="late", n=2)], shuffle="once"
    )
    loop.run()
    tested = [[name for name, _ in visit] for visit in runner.seen]
    assert [set(visit) for visit in tested] == 2 * [{"fog"}, {"night", "clear", "late"}]
    assert tested[1][12:] == ["clear"] * 12 + ["late"] * 2
    assert [(s["round"], s["domain"], s["n_images"], s["mIoU"]) for s in loop.extra_scores] == [
        (1, "clear", 12, 50.0),
        (1, "dusk", 2, 50.0),
        (2, "clear", 12, 50.0),
        (2, "dusk", 2, 50.0),
    ]
    last = [number for name, number in runner.seen[-1] if name == "clear"]
    assert [int(number) for number in last] == list(range(12))  # as stored


@pytest.mark.parametrize("sets", ["clear", [dict(data_root="x")], ["clear", "clear"]])
def test_sets_beside_the_stream_are_checked_as_domains_are(sets):
    with pytest.raises(ReservoirError, match=r"test_cfg\.extra_eval_sets must be|unique name"):
        loop_of(Recorder(), extra_eval_sets=sets)


def test_the_old_name_of_extra_sets_still_works():
    with pytest.warns(DeprecationWarning, match="is now test_cfg.extra_eval_sets"):
        loop = loop_of(Recorder(), also=["clear"])
    loop.run()
    assert {scores["domain"] for scores in loop.extra_scores} == {"clear"}


@pytest.mark.slow
def test_they_leave_no_trace_in_the_stream(minicity, tmp_path):
    options = [*seeded_reservoir(tmp_path / "cache"), "test_cfg.domains=[fog,night]"]
    plain = run("segformer-tiny_tent_reservoir", minicity, tmp_path / "a", *options)
    beside = [*options, "test_cfg.extra_eval_sets=[clear]"]
    tested = run("segformer-tiny_tent_reservoir", minicity, tmp_path / "b", *beside)
    assert "also" not in plain
    assert [(s["round"], s["domain"]) for s in tested["also"]] == [(1, "clear"), (2, "clear")]
    assert set(tested["also"][0]["per_class"]) == set(tested["visits"][0]["per_class"])
    timeless = [
        [{k: v for k, v in route.items() if k != "seconds"} for route in results["routes"]]
        for results in (plain, tested)
    ]
    assert timeless[0] == timeless[1]
    assert [v["mIoU"] for v in plain["visits"]] == [v["mIoU"] for v in tested["visits"]]
    log = next((tmp_path / "b").rglob("*.log")).read_text()
    assert "mIoU of sets beside the stream, after every round" in log
    a, b = (read_styles(tmp_path / name) for name in "ab")
    assert (a.vectors == b.vectors).all()


def test_a_clock_needs_a_model_that_adapts():
    with pytest.raises(ReservoirError, match="frame_rate is for models that adapt"):
        loop_of(Recorder(), frame_rate=10).run()


@pytest.fixture(scope="module")
def timed(minicity, tmp_path_factory):
    """Runs by the clock, whose steps take two and a half frames, by what is missed."""
    folder = tmp_path_factory.mktemp("timed")
    options = ["test_cfg.frame_rate=10", "test_cfg.step_seconds=0.25"]
    return {
        missed: run(
            "segformer-tiny_tent",
            minicity,
            folder / missed,
            *options,
            f"test_cfg.missed={missed}",
            "method.optimizer.lr=0.01",
            "test_cfg.extra_eval_sets=[clear]",
        )
        for missed in ("answer", "drop")
    }


def test_all_frames_of_a_run_by_the_clock_are_scored(timed):
    for missed, results in timed.items():
        assert results["clock"] == {"frame_rate": 10, "missed": missed, "step_seconds": 0.25}
        told = {"answer": "answered", "drop": "dropped"}[missed]
        assert [r["handled"] for r in results["routes"]] == ["adapted", told, told] * 4
        counts = [(v["n_images"], v["adapted"], v["missed"]) for v in results["visits"]]
        assert counts == [(3, 1, 2)] * 4
        assert results["updates"]["updates"] == 4
        assert [scores["n_images"] for scores in results["also"]] == [8, 8]  # none is missed


def test_dropped_frames_score_lower_than_answered_ones(timed):
    answered, dropped = (results["visits"][0] for results in timed.values())
    assert dropped["aAcc"] < answered["aAcc"]


def test_a_run_can_be_repeated_with_the_costs_that_it_measured(minicity, tmp_path):
    first = run("segformer-tiny_tent", minicity, tmp_path / "a", "test_cfg.frame_rate=200")
    costs = [f"test_cfg.step_seconds.{n}={s}" for n, s in first["clock"]["step_seconds"].items()]
    second = run("segformer-tiny_tent", minicity, tmp_path / "b", "test_cfg.frame_rate=200", *costs)
    assert second["clock"] == first["clock"]
    assert sum(visit["missed"] for visit in first["visits"]) > 0
    for one, other in zip(first["visits"], second["visits"], strict=True):
        for visit in (one, other):
            del visit["seconds_per_image"], visit["seconds_quartiles"]
        assert one == other
    log = next((tmp_path / "a").rglob("*.log")).read_text()
    assert "measured seconds by stage of a step" in log
    assert "at 200 frames per second" in log
