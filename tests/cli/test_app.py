"""Every verb answers ``--help`` and mistakes in its options at once, and prints nothing else.

Importing torch and mmseg takes the time, so that is what is asserted; seconds are not.
"""

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mmseg_reservoir.cli import app

ROOT = Path(__file__).parents[2]
VERBS = [verb for group in app.VERBS.values() for verb in group]
TOOLS = {
    "check_dataset": "check",
    "convert_checkpoint": "convert",
    "make_minicity": "minicity",
    "reservoir": "experts",
    "test_cls": "classify",
    "test_tta": "test",
}
"""Tools whose verbs have other names."""
CODE = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from mmseg_reservoir.cli.app import main

for words in json.loads(sys.argv[1]):
    before = set(sys.modules)
    with redirect_stdout(io.StringIO()) as printed, redirect_stderr(io.StringIO()) as errors:
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
    imported = {name.partition(".")[0] for name in set(sys.modules) - before}
    print(json.dumps([printed.getvalue(), errors.getvalue(), sorted(imported), code]))
"""


def answers(commands):
    """Run commands in a new interpreter: of each, outputs, what it imported, and its exit code."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(commands)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return map(json.loads, done.stdout.splitlines())


SLOW = {"torch", "mmengine", "mmcv", "mmseg", "transformers", "sklearn", "matplotlib", "ray"}


def test_help_imports_nothing_that_is_slow():
    commands = [[], ["--help"], *([verb, "--help"] for verb in VERBS)]
    for words, answer in zip(commands, answers(commands), strict=True):
        printed, errors, imported, code = answer
        usage = " ".join(["usage: reservoir", *words]).removesuffix(" --help")
        assert printed.startswith(usage), words
        assert (errors, SLOW & set(imported), code) == ("", set(), 0), words


def test_the_overview_has_every_verb_in_a_line(capsys):
    assert app.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    for verb in VERBS:
        (line,) = (line for line in lines if line.split()[:1] == [verb])
        assert line.endswith("."), verb


def test_every_verb_is_a_file_and_every_file_a_verb():
    folder = Path(app.__file__).parent
    shared = {"__init__", "__main__", "app", "command_line", "options"}
    files = {path.stem for path in folder.glob("*.py")} - shared
    assert files == {verb.replace("-", "_") for verb in VERBS}


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_has_a_help_text(verb, capsys):
    with pytest.raises(SystemExit):
        app.main([verb, "--help"])
    text = capsys.readouterr().out
    assert f"reservoir {verb} " in text  # an example
    assert "None" not in text


def test_an_unknown_verb_is_a_mistake(capsys):
    with pytest.raises(SystemExit) as end:
        app.main(["tst"])
    assert end.value.code == 2
    assert "unknown verb 'tst' (did you mean 'test'?)" in capsys.readouterr().err


def test_the_tools_are_the_verbs():
    tools = sorted(path.stem for path in (ROOT / "tools").glob("*.py"))
    verbs = {tool: TOOLS.get(tool, tool.replace("_", "-")) for tool in tools}
    assert sorted(verbs.values()) == sorted(VERBS)
    for tool, verb in verbs.items():
        assert importlib.import_module(f"tools.{tool}").main is app.find_verb(verb)


def test_old_commands_name_their_verb_and_run_it(monkeypatch, capsys):
    (names,) = (
        ast.literal_eval(node.value)
        for node in ast.parse((ROOT / "setup.py").read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and node.targets[0].id == "OLD_COMMANDS"
    )
    assert {f"reservoir-{name}" for name in names.split()} == set(app.OLD_COMMANDS)
    assert set(app.OLD_COMMANDS.values()) <= set(VERBS)
    monkeypatch.setattr(sys, "argv", ["bin/reservoir-check-dataset", "minicity", "nowhere"])
    assert app.old_command() == 2
    warning, error = capsys.readouterr().err.splitlines()
    assert warning == "DeprecationWarning: reservoir-check-dataset is now: reservoir check"
    assert error.startswith("error: ")


def test_mistakes_are_reported_before_torch_is_imported():
    cases = [
        ("adapt --save-every=0", "--save-every: must be 1 or more, got 0"),
        ("sweep minicity/segformer-tiny_tent.py --retries=-1", "must be 0 or more, got -1"),
        ("experts prune none --least 1 --unused", "not allowed with"),
        ("report nothing", "no results.json in or below nothing"),
        ("summarize nothing", "no results.json in or below nothing"),
        ("sweep cls/digits_convnet.py --with-reservoir", "give --method, too"),
        ("check acdcc data", "invalid choice: 'acdcc'"),
        ("test minicity/segformer-tiny_tnt.py", "did you mean minicity/segformer-tiny_tent.py"),
        ("test minicity/segformer-tiny_tent.py --lr-grid 1", "belongs to --protocol fair"),
        ("test minicity/segformer-tiny_tent.py none.pth", "no checkpoint file none.pth"),
        (
            "test minicity/segformer-tiny_tent.py --cfg-options methd.lr=1",
            "no 'methd' (did you mean 'method'?)",
        ),
        ("classify cls/digits_convnet.py", "choose a row of it, --method NAME"),
        (
            "classify cls/digits_convnet.py --method=tent --with-reservoir=robst",
            "unknown preset 'robst' (did you mean 'robust'?)",
        ),
        ("warmup nowhere.py", "no config file nowhere.py"),
        ("train nowhere.py", "no config file nowhere.py"),
    ]
    commands = [words.split() for words, _ in cases]
    for (words, message), answer in zip(cases, answers(commands), strict=True):
        printed, errors, imported, code = answer
        assert (printed, code) == ("", 2), words
        assert message in errors.splitlines()[-1], words
        assert "Warning" not in errors, words
        assert not {"torch", "mmcv", "mmseg"} & set(imported), words
