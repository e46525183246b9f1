"""The commands of an installed package run the code of tools/."""

import ast
from pathlib import Path

import pytest

from mmseg_reservoir.cli import console

ROOT = Path(__file__).parents[2]


def declared():
    """Command -> function, from setup.py, which cannot be imported."""
    for node in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "COMMANDS":
            return ast.literal_eval(node.value)
    raise AssertionError("setup.py has no COMMANDS")


def test_every_command_has_its_function_and_every_function_its_command():
    functions = {name for name, value in vars(console).items() if hasattr(value, "__closure__")}
    assert set(declared().values()) == functions - {"load_tool", "_command", "shipped"}


@pytest.mark.parametrize("tool", sorted(p.stem for p in (ROOT / "tools").glob("*.py")))
def test_every_tool_but_what_needs_a_checkout_is_a_command(tool):
    function = "test" if tool == "test_tta" else tool
    assert hasattr(console, function) == (tool not in {"demo", "demo_cls", "train_digits"})


def test_arguments_and_exit_code_pass_through(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert console.test_cls(["cls/digits/nosuch.py"]) == 2
    assert "error: no config file cls/digits/nosuch.py" in capsys.readouterr().err
    assert console.make_minicity(["there", "--train=1", "--val=1", "--per-condition=1"]) == 0
    assert console.check_dataset(["minicity", "there", "--fast"]) == 0
    assert console.check_dataset(["acdc", "there", "--fast"]) in (1, 2)


def test_arguments_are_those_of_the_process_by_default(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["reservoir-summarize", "--help"])
    with pytest.raises(SystemExit):
        console.summarize()
    assert capsys.readouterr().out.startswith("usage: reservoir-summarize ")
