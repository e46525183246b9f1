import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from benchmarks import routing
from benchmarks.routing import (
    CHANNELS,
    Routers,
    benchmark,
    false_openings,
    follow,
    main,
    make_router,
    routing_options,
    select,
)
from benchmarks.stream_orders import FADE, ORDERS, visits
from benchmarks.style_streams import Recorded
from mmseg_reservoir.config.presets import with_preset
from mmseg_reservoir.errors import ReservoirError

REAL = os.environ.get(routing.REAL)


def make_statistics(n=12, source=40):
    torch.manual_seed(0)
    width = sum(CHANNELS.values())
    found = {}
    for i, (name, size) in enumerate({"source": source, "fog": n, "night": n}.items()):
        for part in ("mean", "logvar"):
            shift = torch.zeros(width)
            shift[i::3] = 5.0 * i
            found[f"{name}/{part}"] = torch.randn(size, width) + shift
    return found


def test_columns_come_in_the_order_of_the_encoder():
    statistics = make_statistics()
    both = select(statistics, "fog", {"statistic": "mean_var", "taps": "shallow"})
    assert both.shape == (12, 640)
    assert torch.equal(both[:, :64], statistics["fog/mean"][:, :64])
    assert torch.equal(both[:, 64:128], statistics["fog/logvar"][:, :64])
    assert torch.equal(both[:, 128:256], statistics["fog/mean"][:, 64:192])


def test_orders():
    styles = {"a": torch.zeros(3, 2), "b": torch.ones(4, 2)}
    streams = {n: make(styles, 2, torch.Generator().manual_seed(0)) for n, make in ORDERS.items()}
    assert "".join(f.condition for f in streams["given"]) == "aaabbbb" * 2
    assert "".join(f.condition for f in streams["reversed"]) == "bbbbaaa" * 2
    assert sorted(f.condition for f in streams["mixed"]) == ["a"] * 6 + ["b"] * 8
    assert len(streams["fades"]) == 14 + 3 * FADE


@pytest.mark.parametrize("preset", ["stream", "published", "published_code"])
def test_clear_domains_are_found_by_every_preset(preset):
    found = benchmark(make_statistics(), {"preset": preset}, rounds=3, seeds=1, source_frames=50)
    run = found["orders"]["given"][0]
    assert run["k"] == 3
    assert run["recall"] == 1
    assert found["false_openings"] == [0]


@pytest.mark.parametrize("preset", ["stream", "published"])
def test_routers_of_one_fit_route_as_those_of_their_own(preset):
    style = with_preset(preset)["style"]
    statistics = make_statistics()
    source = select(statistics, "source", style)
    styles = {name: select(statistics, name, style) for name in ("night", "fog")}
    routers = Routers(source, {"preset": preset})
    stream = visits(styles, 2, torch.Generator().manual_seed(0))
    for seed in (0, 1):
        alone = make_router(source, {"preset": preset}, seed)
        assert follow(routers.make(seed), stream) == follow(alone, stream)


def test_presets_that_route_alike_are_known():
    assert routing_options("robust") == routing_options("stream")
    assert routing_options("paper") != routing_options("published")


def test_command_line_writes_json(tmp_path, capsys):
    save_file(make_statistics(), tmp_path / "styles.safetensors")
    out = tmp_path / "out.json"
    common = ["--styles", str(tmp_path / "styles.safetensors"), "--rounds", "2", "--seeds", "1"]
    common += ["--jobs", "1"]
    main([*common, "--preset", "stream", "--source-frames", "0", "--json", str(out)])
    assert "stream          given" in capsys.readouterr().out
    assert set(json.loads(out.read_text())["stream"]["orders"]) == set(ORDERS)


def test_the_stream_has_the_order_of_the_paper_or_the_one_given():
    names = {"fog": "Snow", "night": "Fog", "source": "Source"}
    parts = [(key.split("/"), value) for key, value in make_statistics().items()]
    renamed = {f"{names[name]}/{part}": value for (name, part), value in parts}
    found = benchmark(renamed, {"preset": "published"}, rounds=1, seeds=1, source_frames=0)
    assert found["conditions"] == ["Fog", "Snow"]
    assert [*found["orders"]["given"][0]["leak"]] == ["Fog", "Snow"]
    given = benchmark(renamed, {}, rounds=1, seeds=1, source_frames=0, conditions=["Snow", "Fog"])
    assert [*given["orders"]["given"][0]["leak"]] == ["Snow", "Fog"]
    with pytest.raises(ReservoirError, match=r"\['Fog', 'Snow'\]: source and conditions"):
        benchmark({k: v for k, v in renamed.items() if "Source" not in k}, {})


def test_source_only_stream_draws_unseen_frames_where_there_are_some():
    statistics = make_statistics()
    options = with_preset({"preset": "published"})
    source = select(statistics, "source", options["style"])
    fog = select(statistics, "fog", options["style"])
    assert false_openings(source, options, 30, seed=0) == 0
    assert false_openings(source, options, 30, seed=0, unseen=fog) == 1
    statistics |= {f"unseen/{part}": statistics[f"fog/{part}"] for part in ("mean", "logvar")}
    found = benchmark(statistics, {}, rounds=1, seeds=1, source_frames=30)
    assert found["false_openings"] == [1]
    assert found["conditions"] == ["fog", "night"]


@pytest.mark.parametrize("preset", ["published", "paper", "stream"])
def test_the_scale_of_a_channel_does_not_matter(preset):
    """Another VGG-19 may have its channels rescaled: log-variances shift, means are multiplied."""
    statistics = make_statistics()
    scale = 10 ** torch.linspace(-1, 1, sum(CHANNELS.values()))
    rescaled = {
        key: value * scale if key.endswith("mean") else value + 2 * scale.log()
        for key, value in statistics.items()
    }
    options = with_preset({"preset": preset})
    routes = []
    for recorded in (statistics, rescaled):
        source, *styles = (
            select(recorded, name, options["style"]) for name in ("source", "fog", "night")
        )
        stream = visits(dict(enumerate(styles)), 2, torch.Generator().manual_seed(0))
        steps = follow(make_router(source, options), stream)
        routes.append([step.expert for step in steps])
    assert routes[0] == routes[1]
    assert len(set(routes[0])) > 1


def test_data_sets_of_the_command_line(tmp_path, capsys, monkeypatch):
    made = Recorded(make_statistics(), ["night", "fog"])
    monkeypatch.setattr(routing.style_streams, "minicity", lambda weights: made)
    monkeypatch.setattr(routing.style_streams, "classification", lambda weights: made)
    monkeypatch.setenv(routing.REAL, str(tmp_path / "none.safetensors"))
    out = tmp_path / "out.json"
    common = ["--rounds=1", "--seeds=1", "--source-frames=0", "--orders=given"]
    common += ["--preset=published", f"--json={out}", "--jobs=1"]
    main(common)  # the real styles are not there, so all others
    found = json.loads(out.read_text())
    assert [*found] == ["minicity", "classification"]
    assert found["minicity"]["published"]["conditions"] == ["night", "fog"]
    main([*common, "--data", "minicity"])
    assert [*json.loads(out.read_text())] == ["published"]
    assert "minicity: encoded by the shipped VGG-19" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main([*common, "--data", "real"])
    assert "none.safetensors: give recorded statistics by --styles" in capsys.readouterr().err


@pytest.mark.slow
def test_runs_as_a_script():
    command = [sys.executable, routing.__file__, "--help"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True)
    assert "--data" in done.stdout


@pytest.mark.skipif(not REAL, reason="no recorded styles: name their file in RESERVOIR_STYLES")
def test_real_styles_meet_the_thresholds():
    found = benchmark(load_file(REAL), {"preset": "stream"}, source_frames=0)
    for run in found["orders"]["given"]:
        assert run["nmi"] >= 0.75
        assert 3 <= run["k"] <= 6
        assert run["recall"] >= 0.90
        assert run["k_by_round"][2] == run["k"]
        assert run["leak"]["night"] <= 0.05
