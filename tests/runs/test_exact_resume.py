"""Runs that are killed at any moment and resumed end as if they had never been killed."""

import random

import pytest
from killed_runs import CLOCKS, ROOT, Kill, counted_calls, outcome, output, run
from nested import same
from stream_run import TINY

from mmseg_reservoir.minicity import make_counts, write_dataset
from mmseg_reservoir.runs.run_saver import saved_seed

DIGITS = TINY.parent / "cls" / "digits_convnet.py"
CALIBRATION = Kill("mmseg_reservoir.style.vgg:StyleEncoder.forward", call=5)
STEP = "torch.optim:Adam.step"  # the first call is the trial of the options
SAVING = "mmseg_reservoir.runs.state_folder:write_state"
# The state is written, but has not got its name; it has, but does not count yet.
UNNAMED = Kill(SAVING, call=2, then="mmseg_reservoir.io.files:os.fsync")
UNMARKED = Kill(SAVING, call=2, then="mmseg_reservoir.runs.state_folder:write_text")
SEGMENTATION = [
    CALIBRATION,
    # Between the first two rounds.
    Kill("mmseg_reservoir.seg.hooks.results_hook:ResultsHook.after_test_epoch", call=2),
    Kill(STEP, call=2),
    UNNAMED,
    UNMARKED,
]
CLASSIFICATION = [
    CALIBRATION,
    Kill("mmseg_reservoir.cls.stream_tester:StreamTest._step", call=9),  # the first of round 2
    Kill("mmseg_reservoir.cls.classifier:AdaptiveClassifier.step", call=3),
    UNNAMED,
    UNMARKED,
]


def compare_killed(tool, words, tmp_path, kills):
    """Compare an unbroken run with one that is killed again and again."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    counted = {kill.function for kill in kills if isinstance(kill.call, float)}
    assert run(tool, words, whole, counted=counted) == 0, output(whole)
    calls = counted_calls(whole) if counted else {}
    for kill in (kill.of(calls) for kill in kills):
        assert run(tool, words, broken, kill) == -9, f"{kill}\n{output(broken)}"
        words = [word for word in words if word != "--resume"] + ["--resume"]
    assert run(tool, words, broken) == 0, output(broken)
    assert output(broken).count("resumed after") >= 1
    assert [file.name for file in (broken / "w").rglob("*.partial")] == []
    expected, found = outcome(whole), outcome(broken)
    assert found[0] == expected[0]
    assert same(found[1], expected[1])
    assert found[2] == expected[2]
    return expected[0]


def segmentation(tmp_path, data, base, **options):
    """The command line of a test at a quarter of the size, with pictures, saved often."""
    names = ("StrictCheckpointHook", "AdaptationHook", "ProgressHook", "ResultsHook")
    hooks = [dict(type=name) for name in names]
    hooks += [dict(type="PseudoLabelHook", show_dir="panels", frames=[1, 3, 4])]
    hooks += [dict(type="ResumeHook", images=2)]
    steps = [dict(type="LoadImageFromFile"), dict(type="Resize", scale=(64, 32))]
    steps += [dict(type="LoadAnnotations"), dict(type="PackSegInputs")]
    (tmp_path / "config.py").write_text(
        f"_base_ = {str(TINY / base)!r}\ncustom_hooks = {hooks}\n"
        f"test_dataloader = dict(dataset=dict(pipeline={steps}))\n"
    )
    options = {
        "test_dataloader.dataset.data_root": data,
        "source_images.data_root": data / "rgb_anon/clear/train",
        "test_cfg.domains": "[fog,night]",
        "test_cfg.rounds": 2,
        "reservoir.calibration.cache": "cache",
        **options,
    }
    words = [tmp_path / "config.py", "--work-dir=w", "--cfg-options"]
    return words + [f"{key}={value}" for key, value in options.items()]


def classification(method, preset):
    options = ["stream.batch_size=50", "stream.rounds=3", "data.corruptions=[fog,snow]"]
    options += ["source_images.num_images=300", "device=cpu", "saving.images=100"]
    options += ["reservoir.calibration.batches=10"]
    words = [DIGITS, f"--method={method}", f"--with-reservoir={preset}", "--work-dir=w"]
    return [*words, "--cfg-options", *options]


def test_the_docs_list_all_that_differs():
    text = (ROOT / "docs" / "resume.md").read_text(encoding="utf-8")
    assert [clock for clock in CLOCKS if f"`{clock}`" not in text] == []


def test_a_killed_segmentation_run(tmp_path, minicity):
    # Three frames of a condition are too few for a domain.
    learns = {"reservoir.pipeline.source": "adapt"}
    words = segmentation(tmp_path, minicity, "segformer-tiny_tent_robust.py", **learns)
    compare_killed("test_tta", words, tmp_path, [Kill(STEP, call=3)])


@pytest.mark.slow
def test_a_killed_run_whose_config_names_no_seed(tmp_path, minicity):
    words = segmentation(tmp_path, minicity, "segformer-tiny_tent.py", **{"test_cfg.rounds": 1})
    config = tmp_path / "config.py"
    config.write_text(config.read_text() + "randomness = dict(_delete_=True)\n")
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    kill = Kill("mmseg_reservoir.seg.segmentor:AdaptiveSegmentor.test_step", call=4)
    assert run("test_tta", words, broken, kill) == -9
    seed = saved_seed(broken / "w", "auto")
    assert run("test_tta", [*words, "--resume"], broken) == 0, output(broken)
    assert run("test_tta", [*words, f"--seed={seed}"], whole) == 0, output(whole)
    assert outcome(broken)[0] == outcome(whole)[0]


@pytest.mark.slow
@pytest.mark.parametrize("missed", ["answer", "drop"])
def test_a_killed_run_by_the_clock(tmp_path, minicity, missed):
    # The run resumes after four images, before one that is missed.
    clock = {"test_cfg.frame_rate": 10, "test_cfg.step_seconds": 0.25, "test_cfg.missed": missed}
    clock["reservoir.pipeline.source"] = "adapt"
    words = segmentation(tmp_path, minicity, "segformer-tiny_tent_robust.py", **clock)
    kill = Kill("mmseg_reservoir.seg.frame_clock:FrameClock.arrive", call=6)
    results = compare_killed("test_tta", words, tmp_path, [kill])
    assert '"missed": 2' in results


def test_a_killed_classification_run(tmp_path):
    words = classification("tent", "robust")
    compare_killed("test_cls", words, tmp_path, [Kill(STEP, call=13)])


@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    """Visits that are long enough to open experts."""
    root = tmp_path_factory.mktemp("longer") / "minicity"
    write_dataset(root, counts=make_counts(train=8, val=2, adverse_train=6, adverse_val=1))
    return root


def at_random(count, total=0.5):
    """Return random kills, each by the calls of any network's modules since the last one.

    All of them together come at most ``total`` of a run far, so that each finds a run to kill.
    """
    draw = random.Random(0)
    calls = [draw.uniform(0, total / count) for _ in range(count)]
    return [Kill("torch.nn:Module.__call__", call=call) for call in calls]


ROBUST = {"test_cfg.rounds": 3, "reservoir.router.odds": 0.5, "reservoir.router.margin": 0.3}


@pytest.mark.slow
def test_segmentation_killed_at_random(tmp_path, longer):
    # Five rounds: the first is over when the random kills begin.
    options = {**ROBUST, "test_cfg.rounds": 5}
    words = segmentation(tmp_path, longer, "segformer-tiny_tent_robust.py", **options)
    kills = [*SEGMENTATION, *at_random(10)]
    results = compare_killed("test_tta", words, tmp_path, kills)
    assert '"opened": true' in results


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cotta", "eata", "becotta"])
def test_segmentation_killed_in_every_phase(tmp_path, longer, method):
    words = segmentation(tmp_path, longer, f"segformer-tiny_{method}_robust.py", **ROBUST)
    assert '"opened": true' in compare_killed("test_tta", words, tmp_path, SEGMENTATION)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "options"),
    [
        ("stream", {"reservoir.router.odds": 0.5, "reservoir.router.margin": 0.3}),
        ("paper", {"reservoir.router.quantile": 0.1}),
    ],
)
def test_segmentation_by_other_presets(tmp_path, longer, preset, options):
    options = {"test_cfg.rounds": 3, "reservoir.preset": preset, **options}
    options["reservoir.style.weights"] = "shipped"
    words = segmentation(tmp_path, longer, "segformer-tiny_tent_reservoir.py", **options)
    assert '"opened": true' in compare_killed("test_tta", words, tmp_path, SEGMENTATION)


@pytest.mark.slow
def test_classification_killed_at_random(tmp_path):
    kills = [*CLASSIFICATION[:2], *at_random(10), *CLASSIFICATION[2:]]
    compare_killed("test_cls", classification("tent", "robust"), tmp_path, kills)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "preset"),
    [
        ("rotta", "robust"),
        ("eata", "robust"),
        ("cotta", "robust"),
        ("tent", "stream"),
        ("tent", "paper"),
    ],
)
def test_classification_killed_in_every_phase(tmp_path, method, preset):
    compare_killed("test_cls", classification(method, preset), tmp_path, CLASSIFICATION)
