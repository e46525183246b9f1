import json
from pathlib import Path

import pytest

from tools import test_cls

CONFIG = Path(__file__).parents[2] / "configs" / "cls" / "digits" / "digits_convnet_tent.py"
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
    assert test_cls.main([str(word) for word in command]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]


def test_runs_a_config_and_prints_its_table(tmp_path, capsys):
    command = [CONFIG, f"--work-dir={tmp_path}", "--seed=5", *SMALL]
    assert test_cls.main([str(word) for word in command]) == 0
    out = capsys.readouterr().out
    assert "Error (%) by domain and visit" in out
    assert f"Results are in {tmp_path / 'results.json'} and .csv" in out
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["seed"] == 5
    assert results["stream"]["seed"] == 5
    assert results["config_file"] == str(CONFIG)
    assert len(results["visits"]) == 4
    fog = next(line for line in out.splitlines() if line.startswith("│ fog"))
    assert f"{results['visits'][0]['error']:.2f}" in fog


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("method.type=tant", "unknown adaptation method 'tant' (did you mean 'tent'?)"),
        ("method.rate=1", "method has no option 'rate'"),
        ("methd.type=tent", "the config has no 'methd' (did you mean 'method'?)"),
        ("stream.rounds=0", "rounds must be a whole number, 1 or more, got 0"),
        ("stream.batch_size=2.5", "stream.batch_size must be of type int, got 2.5"),
        ("data.corruptions=fog", "the domains must be a list, got 'fog': write [fog]"),
        ("device=gpu0", "there is no device 'gpu0' here"),
        ("method.optimizer.lr=fast", "method.optimizer: Adam"),
        ("data.severity=6", "severity must be 1, 2, 3, 4 or 5, got 6"),
        ("reservoir.kmax=4", "reservoir has no option 'kmax' (did you mean 'k_max'?)"),
        ("novalue", "--cfg-options takes key=value"),
    ],
)
def test_mistakes_end_in_one_line(tmp_path, capsys, option, message):
    if option.startswith("reservoir"):
        command = [CONFIG.with_name("digits_convnet_tent_reservoir.py")]
        style = ["reservoir.style.weights=seeded"]
    else:
        command, style = [CONFIG], []
    command += [f"--work-dir={tmp_path}", *SMALL, *style, option]
    assert message in fail(capsys, *command)
    assert not (tmp_path / "results.json").exists()


def test_missing_files_are_named(tmp_path, capsys):
    assert "no config file nowhere.py" in fail(capsys, "nowhere.py")
    cifar = CONFIG.parents[1] / "cifar10c" / "cifar10c_wrn28_tent.py"
    root = tmp_path / "none"
    line = fail(capsys, cifar, f"--work-dir={tmp_path}", "--cfg-options", f"data.root={root}")
    assert f"there is no {root / 'labels.npy'}" in line
