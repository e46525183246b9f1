"""The demonstration of classifiers: that it has every method, and what it prints."""

import pytest

from mmseg_reservoir.methods import METHODS
from mmseg_reservoir.report.errors import PLUG_IN
from tools import demo_cls


def test_every_run_has_a_config_and_every_config_a_run():
    runs = demo_cls.chosen_runs()
    assert set(runs.values()) == {path.stem for path in demo_cls.CONFIGS.glob("digits_*.py")}
    assert sum(name.endswith(PLUG_IN) for name in runs) == 9
    only = demo_cls.chosen_runs(["tent"])
    assert list(only) == [
        "ConvNet: TENT",
        "ConvNet: TENT + ReservoirTTA",
        "ViT: TENT",
        "ViT: TENT + ReservoirTTA",
    ]


def test_every_method_for_images_takes_part():
    from mmengine.config import Config

    configs = demo_cls.chosen_runs().values()
    used = {Config.fromfile(demo_cls.CONFIGS / f"{c}.py").method.type for c in configs}
    ours = {n: c for n, c in METHODS.items() if c.__module__.startswith("mmseg_reservoir.methods")}
    assert used == {name for name, cls in ours.items() if "images" in cls.handles}


@pytest.mark.slow
def test_it_prints_error_by_visit_experts_and_purity(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    command = ["--rounds=2", "--workers=1", "--only", "source", f"--out={tmp_path / 'out'}"]
    assert demo_cls.main(command) == 0
    out = capsys.readouterr().out
    assert "% error on clean images" in out
    assert "ConvNet: Source" in (tmp_path / "out" / "table.txt").read_text()
    assert (tmp_path / "out" / "errors.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "digits_vit_source" / "results.json").is_file()
