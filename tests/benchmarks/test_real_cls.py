import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from benchmarks import classifier_parts, classifiers, real_cls
from benchmarks.classifier_parts import CifarResNet20, RememberedStyles, corrupted_cifar
from mmseg_reservoir.cls.run import run
from mmseg_reservoir.cls.streams import build_stream
from mmseg_reservoir.config.presets import PRESETS, with_preset
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.style.vgg import StyleEncoder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A CIFAR-10 of random images, 400 for tests, and a random network."""
    root = tmp_path_factory.mktemp("cifar")
    rng = np.random.default_rng(0)
    counts = {"test_batch": 400} | {f"data_batch_{i}": 40 for i in range(1, 6)}
    for name, count in counts.items():
        records = rng.integers(0, 256, (count, 3073), np.uint8)
        records[:, 0] %= 10
        records.tofile(root / f"{name}.bin")
    torch.manual_seed(0)
    save_file(CifarResNet20().state_dict(), root / "net.safetensors")
    return root


@pytest.fixture
def small(monkeypatch):
    """Short streams, small styles, and no other processes, which would know nothing of this."""
    style = {**with_preset("published")["style"], "size": (8, 8)}
    monkeypatch.setitem(PRESETS, "small", {**with_preset("published"), "style": style})
    monkeypatch.setattr(classifier_parts, "DOMAINS", ("fog", "contrast"))
    monkeypatch.setattr(real_cls, "CALIBRATION", 6)
    threads = torch.get_num_threads()
    pool = lambda workers, mp_context: ThreadPoolExecutor(1)  # noqa: E731
    monkeypatch.setattr(classifiers, "ProcessPoolExecutor", pool)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def command(data, tmp_path):
    weights = data / "net.safetensors"
    out = tmp_path / "out"
    words = [f"--cifar={data}", f"--weights={weights}", f"--out={out}", "--images=100"]
    return [*words, "--rounds=1", "--methods", "tent"]


def fail(capsys, *command) -> str:
    assert real_cls.main(list(map(str, command))) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.slow
def test_the_command_line_runs_what_is_missing(command, small, tmp_path, capsys, monkeypatch):
    cells = ["--variants", "base", "small", "--seeds", "0", "1"]
    assert real_cls.main([*command, *cells, "--check"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("clean test images: ")
    out = tmp_path / "out"
    summary = (out / "summary.md").read_text()
    assert summary in printed
    scores = {}
    for variant in ("base", "small"):
        files = [out / f"tent_1_{variant}" / f"seed{s}" / "results.json" for s in (0, 1)]
        found = [json.loads(file.read_text()) for file in files]
        assert [len(run["routes"]) for run in found] == [4, 4]
        scores[variant] = [np.mean([v["error"] for v in run["visits"]]) for run in found]
        mean, deviation = np.mean(scores[variant]), np.std(scores[variant], ddof=1)
        assert f"{mean:.2f} ± {deviation:.2f}" in summary
    gain = np.subtract(scores["small"], scores["base"])
    assert f"{gain.mean():+.2f} ± {gain.std(ddof=1) / 2**0.5:.2f}" in summary
    assert "## Difference to base" in summary
    assert "## Difference to published" not in summary

    monkeypatch.setattr(classifiers, "run", lambda *args, **options: pytest.fail("it ran again"))
    assert real_cls.main([*command, *cells]) == 0
    # Another preset of that name is another run.
    monkeypatch.setitem(PRESETS["small"], "k_max", 3)
    monkeypatch.setattr(classifiers, "run", lambda *args, **options: 1 / 0)
    assert real_cls.main([*command, *cells]) == 1
    assert "tent_1_small, seed 0: failed: division by zero" in capsys.readouterr().err


@pytest.mark.slow
def test_styles_that_are_remembered_give_the_same_routes(
    command, small, data, tmp_path, monkeypatch
):
    args = real_cls.parse_args(command)
    config = real_cls.config_of(args, real_cls.paired.Cell("tent", 1.0, "small"), 0)
    remembered = config["reservoir"].pop("style")
    plain = run(config, tmp_path / "plain", quiet=True)
    config["reservoir"]["style"] = remembered
    first = run(config, tmp_path / "first", quiet=True)
    monkeypatch.setattr(StyleEncoder, "forward", lambda *args: pytest.fail("it was encoded"))
    config["method"]["optimizer"]["lr"] = 1e-5
    again = run(config, tmp_path / "again", quiet=True)
    keys = ("expert", "k", "weight", "opened", "domain")
    routes = [[[r[key] for key in keys] for r in x["routes"]] for x in (plain, first, again)]
    assert routes[0] == routes[1] == routes[2]
    assert plain["tau"] == first["tau"] == again["tau"]
    assert first["visits"][0]["error"] == plain["visits"][0]["error"]


def test_each_kind_of_style_is_remembered_for_itself(tmp_path):
    images = torch.rand(2, 3, 8, 8)
    for statistic in ("logvar", "mean_var"):
        options = {"statistic": statistic, "weights": "seeded"}
        expected = StyleEncoder(**options)(images)
        for _ in range(2):
            encoder = RememberedStyles(str(tmp_path), **options)
            assert torch.equal(encoder(images), expected)
    files = list(tmp_path.iterdir())
    assert len(files) == 2
    for path in files:
        path.write_bytes(path.read_bytes() + b"half a row")
    with pytest.raises(ReservoirError, match="is truncated: remove it"):
        RememberedStyles(str(tmp_path), weights="seeded")(images)


def test_a_seed_has_images_of_its_own_and_a_visit_a_new_draw(data):
    domains = corrupted_cifar(str(data), first=200, count=150)
    assert len(domains.names) == 10
    assert np.array_equal(
        domains.domain("fog").labels, real_cls.cifar(data, train=False).labels[200:350]
    )
    stream = build_stream(dict(type="csc_samples", rounds=2, batch_size=50, batches=2), domains)
    plan = list(stream.plan())
    assert len(plan) == 2 * 10 * 2
    visits = [np.concatenate([s.indices for s in plan[i : i + 2]]) for i in (0, 20)]
    assert len(set(visits[0])) == 100
    assert set(visits[0]) != set(visits[1])


def test_mistakes_end_in_one_line(command, data, capsys):
    assert "unknown preset 'robst' (did you mean 'robust'?)" in fail(
        capsys, *command, "--variants", "robst"
    )
    assert "there is no method 'tant'" in fail(capsys, *command, "tant")
    assert "there is no checkpoint file nowhere" in fail(capsys, *command, "--weights=nowhere")
    line = fail(capsys, *command, f"--cifar={data / 'none'}")
    assert "test_batch.bin: unpack cifar-10-binary.tar.gz" in line
    assert "use seeds from 0 to 3" in fail(capsys, *command, "--seeds", "4")


@pytest.mark.slow
def test_runs_have_processes_of_their_own(command, tmp_path):
    assert real_cls.main([*command, "--variants", "source", "base", "--seeds", "1"]) == 0
    assert "| source " in (tmp_path / "out" / "summary.md").read_text()
