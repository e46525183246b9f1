import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from benchmarks.routing import (
    CHANNELS,
    FADE,
    ORDERS,
    benchmark,
    main,
    select,
)

DEV = Path(__file__).parents[3] / "shared/styles/real_styles_dev.safetensors"
REAL = Path(os.environ.get("RESERVOIR_STYLES", DEV))


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


@pytest.mark.parametrize("preset", ["stream", "default", "published_code"])
def test_clear_domains_are_found_by_every_preset(preset):
    found = benchmark(make_statistics(), {"preset": preset}, rounds=3, seeds=1, source_frames=50)
    run = found["orders"]["given"][0]
    assert run["k"] == 3
    assert run["recall"] == 1
    assert found["false_openings"] == [0]


def test_command_line_writes_json(tmp_path, capsys):
    save_file(make_statistics(), tmp_path / "styles.safetensors")
    out = tmp_path / "out.json"
    common = ["--styles", str(tmp_path / "styles.safetensors"), "--rounds", "2", "--seeds", "1"]
    main([*common, "--preset", "stream", "--source-frames", "0", "--json", str(out)])
    assert "stream          given" in capsys.readouterr().out
    assert set(json.loads(out.read_text())["stream"]["orders"]) == set(ORDERS)


@pytest.mark.skipif(not REAL.is_file(), reason=f"no recorded styles at {REAL}")
def test_real_styles_meet_the_thresholds():
    found = benchmark(load_file(REAL), {"preset": "stream"}, source_frames=0)
    for run in found["orders"]["given"]:
        assert run["nmi"] >= 0.75
        assert 3 <= run["k"] <= 6
        assert run["recall"] >= 0.90
        assert run["k_by_round"][2] == run["k"]
        assert run["leak"]["night"] <= 0.05
