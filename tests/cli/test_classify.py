import json
from pathlib import Path

import pytest

from mmseg_reservoir.cli import classify

CONFIG = Path(__file__).parents[2] / "configs" / "cls" / "digits_convnet.py"
TENT = [CONFIG, "--method=tent"]
SMALL = [
    "--cfg-options",
    "model.pretrained=False",
    "model.random=True",
    "stream.rounds=2",
    "stream.batch_size=100",
    "data.corruptions=[fog,snow]",
    "device=cpu",
]


def fail(capsys, *command) -> str:
    """Run a command that must end with code 2; returns the one line it says."""
    assert classify.main([str(word) for word in command]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]


def test_runs_a_config_and_prints_its_table(tmp_path, capsys):
    command = [*TENT, f"--work-dir={tmp_path}", "--seed=5", *SMALL]
    assert classify.main([str(word) for word in command]) == 0
    out = capsys.readouterr().out
    assert "Error (%) by domain and visit" in out
    assert f"Results are in {tmp_path / 'results.json'} and .csv" in out
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["seed"] == 5
    assert results["stream"]["seed"] == 5
    assert results["config_file"] == str(CONFIG)
    assert results["row"] == "tent"
    assert "rows" not in results["config"]
    assert len(results["visits"]) == 4
    fog = next(line for line in out.splitlines() if line.startswith("│ fog"))
    assert f"{results['visits'][0]['error']:.2f}" in fog


def test_a_row_of_ones_own_stands_beside_what_its_metafile_says(tmp_path, capsys):
    config = tmp_path / "own.py"
    config.write_text(f'_base_ = {str(CONFIG)!r}\nrows = dict(mine=dict(method=dict(type="norm")))')
    results = "[{Dataset: Digits mean, Stream: csc, Metrics: {error visit 1: 12.34}}]"
    model = f"{{Name: Mine, Config: own.py, Row: mine, Results: {results}}}"
    (tmp_path / "metafile.yaml").write_text(f"Models: [{model}]")
    command = [config, "--method=mine", f"--work-dir={tmp_path}", *SMALL]
    assert classify.main([str(word) for word in command]) == 0
    out = capsys.readouterr().out
    assert "published row 'Mine'" in out
    assert "12.34" in out


def load(*words) -> tuple[dict, dict]:
    """What a command line says, without running it."""
    return classify.load(classify.main.parse([str(word) for word in words]))


def test_the_command_line_goes_over_the_row():
    options, written = load(CONFIG, "--method=eata", "--cfg-options", "method.d_margin=0.3")
    assert (options["method"]["d_margin"], options["method"]["fisher_alpha"]) == (0.3, 1.0)
    assert written["row"] == "eata"
    assert options["work_dir"] == "work_dirs/digits_convnet_eata"
    assert "reservoir" not in options


@pytest.mark.parametrize(
    ("words", "preset", "row"),
    [
        (["--with-reservoir"], "robust", "tent_robust"),
        (["--with-reservoir", "robust"], "robust", "tent_robust"),
        (["--with-reservoir", "published"], "published", "tent_reservoir"),
        (["--with-reservoir=paper"], "paper", "tent_reservoir"),
        (["--cfg-options", "reservoir.k_max=4"], "robust", "tent_robust"),
        (["--cfg-options", "reservoir.preset=published"], "published", "tent_reservoir"),
    ],
)
def test_the_reservoir_is_one_option(words, preset, row):
    options, written = load(*TENT, *words)
    assert options["reservoir"]["preset"] == preset
    assert options["reservoir"]["calibration"] == {"batches": 100}
    assert written["row"] == row
    assert options["work_dir"] == f"work_dirs/digits_convnet_{row}"


def test_a_preset_goes_over_that_of_the_papers_tables():
    cifar = [CONFIG.with_name("cifar10c_wrn28.py"), "--method=eata", "--with-reservoir"]
    options, written = load(*cifar)
    assert (options["reservoir"]["preset"], written["row"]) == ("published", "eata_reservoir")
    robust, written = load(*cifar, "robust")
    assert robust["reservoir"] == {**options["reservoir"], "preset": "robust"}
    assert written["row"] == "eata_robust"


def test_an_unknown_preset_ends_in_one_line(tmp_path, capsys):
    line = fail(capsys, *TENT, f"--work-dir={tmp_path}", "--with-reservoir=robbust", *SMALL)
    assert "unknown preset 'robbust' (did you mean 'robust'?)" in line
    assert not (tmp_path / "results.json").exists()


def test_a_method_without_a_row_runs_and_says_so(capsys):
    options, written = load(CONFIG.with_name("digits_vit.py"), "--method=sar")
    assert options["method"]["type"] == written["row"] == "sar"
    assert options["method"]["optimizer"]["lr"] == 1e-2
    assert "digits_vit.py has no row 'sar'" in capsys.readouterr().out
    load(*TENT)
    assert capsys.readouterr().out == ""


def test_a_config_with_its_own_method_needs_no_row(tmp_path, capsys):
    own = tmp_path / "own.py"
    own.write_text(f'_base_ = {str(CONFIG)!r}\nmethod = dict(type="sar")\n')
    options, written = load(own)
    assert options["method"]["type"] == "sar"
    assert written == {"config_file": str(own), "row": None}
    assert options["work_dir"] == "work_dirs/own"
    assert capsys.readouterr().out == ""


def test_a_table_without_a_choice_lists_its_rows(capsys):
    assert "--method NAME, of source, norm, align, tent," in fail(capsys, CONFIG)
    assert "no method 'tant' (did you mean 'tent'?)" in fail(capsys, CONFIG, "--method=tant")


def test_a_wrong_option_ends_in_one_line(tmp_path, capsys):
    """All of them are in tests/test_build.py and tests/cls/test_run.py."""
    line = fail(capsys, *TENT, f"--work-dir={tmp_path}", *SMALL, "reservoir.kmax=4")
    assert "reservoir has no option 'kmax' (did you mean 'k_max'?)" in line
    assert not (tmp_path / "results.json").exists()


def test_missing_files_are_named(tmp_path, capsys):
    assert "no config file nowhere.py" in fail(capsys, "nowhere.py")
    cifar = [CONFIG.with_name("cifar10c_wrn28.py"), "--method=tent", f"--work-dir={tmp_path}"]
    root = tmp_path / "none"
    line = fail(capsys, *cifar, "--cfg-options", f"data.root={root}")
    assert f"there is no {root / 'labels.npy'}" in line


def test_a_work_dir_with_results_is_resumed_or_overwritten(tmp_path, capsys):
    command = [*TENT, f"--work-dir={tmp_path}", *SMALL]
    assert classify.main([str(word) for word in command]) == 0
    before = (tmp_path / "results.json").read_text()
    capsys.readouterr()
    line = fail(capsys, *command)
    assert f"{tmp_path} holds the results of a complete run: continue it with --resume" in line
    line = fail(capsys, *command, "--seed=3", "--resume")
    assert "options.seed was 0, is 3" in line
    assert (tmp_path / "results.json").read_text() == before
    # There is nothing left to do.
    assert classify.main([str(word) for word in [*command, "--resume"]]) == 0
    again = json.loads((tmp_path / "results.json").read_text())
    assert again["routes"] == json.loads(before)["routes"]
    assert classify.main([str(word) for word in [*command, "--seed=3", "--overwrite"]]) == 0
    assert json.loads((tmp_path / "results.json").read_text())["seed"] == 3


@pytest.mark.slow
def test_a_run_goes_on_from_the_reservoir_of_another(tmp_path, capsys):
    options = [*SMALL, "reservoir.preset=published", "reservoir.style.weights=seeded"]
    first, second = tmp_path / "first", tmp_path / "second"
    assert classify.main([*map(str, TENT), f"--work-dir={first}", *options]) == 0
    manifest = json.loads((first / "reservoir" / "manifest.json").read_text())
    k = len(manifest["experts"])
    assert manifest["about"]["batch_size"] == 100
    flags = [f"--work-dir={second}", f"--start-from={first / 'reservoir'}", "--frozen"]
    assert classify.main([*map(str, TENT), *flags, *options]) == 0
    results = json.loads((second / "results.json").read_text())
    assert {route["k"] for route in results["routes"]} == {k}
    assert results["updates"]["updates"] == 0
    assert not (second / "reservoir").exists()
