from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from benchmarks import classifiers, digits, paired


@pytest.fixture
def in_this_process(monkeypatch):
    threads = torch.get_num_threads()
    pool = lambda workers, mp_context: ThreadPoolExecutor(1)  # noqa: E731
    monkeypatch.setattr(classifiers, "ProcessPoolExecutor", pool)
    yield
    torch.set_num_threads(threads)


def config(variant, rate=1.0, *words):
    args = digits.parse_args(list(words))
    return digits.config_of(args, paired.Cell("eata", rate, variant), seed=3)


def test_a_cell_is_a_row_of_the_table_with_a_rate_and_a_variant(tmp_path):
    base, faster = config("base"), config("base", 10.0)
    assert base["method"]["type"] == "eata"
    lr = [c["method"]["optimizer"]["lr"] for c in (base, faster)]
    assert lr[1] == pytest.approx(10 * lr[0])
    assert "reservoir" not in base
    assert base["randomness"]["seed"] == 3
    guardless = config("robust,guard=None", 1.0, f"--out={tmp_path}")["reservoir"]
    assert guardless["preset"] == "robust"
    assert guardless["guard"] is None
    assert guardless["style"]["type"] == "remembered_vgg"
    assert guardless["style"]["folder"] == str(tmp_path / "styles" / "seed3")


@pytest.mark.parametrize("preset", ["published", "robust"])
def test_what_the_table_says_for_its_reservoir_holds_unless_it_is_changed(preset, tmp_path):
    table = digits.read_config(digits.TABLES / "digits_convnet.py", {}).to_dict()["with_reservoir"]
    written = config(preset, 1.0, f"--out={tmp_path}")["reservoir"]
    assert tuple(written["style"]["size"]) == tuple(table["style"]["size"])
    assert written["calibration"] == table["calibration"]
    changed = config(f"{preset},style.size=8", 1.0, f"--out={tmp_path}")["reservoir"]
    assert changed["style"]["size"] == 8
    assert changed["style"]["statistic"] == written["style"]["statistic"]


@pytest.mark.slow  # tests/benchmarks/test_real_cls.py runs cells in the same way
def test_cells_are_run_and_compared(tmp_path, capsys, in_this_process):
    words = [f"--out={tmp_path}", "--rounds=1", "--seeds=0", "--methods=tent", "--variants"]
    assert digits.main([*words, "base", "robust,pooling=None"]) == 0
    printed = capsys.readouterr().out
    assert "tent_1_robust,pooling=None, seed 0: done" in printed
    assert (tmp_path / "summary.md").read_text() in printed
    assert "## Difference to base" in printed
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_mistakes_end_in_one_line(tmp_path, capsys):
    assert digits.main([f"--out={tmp_path}", "--variants", "robust,guard.evry=3"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "evry" in line
    assert "every" in line
