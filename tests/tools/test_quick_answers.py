"""Every command answers ``--help`` and mistakes in its options at once, and says nothing else.

What takes the time is importing torch and mmseg, so that is what is asserted; seconds are not.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = sorted(path.stem for path in (ROOT / "tools").glob("*.py"))
CODE = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from mmseg_reservoir.cli.console import load_tool

for words in json.loads(sys.argv[1]):
    before = set(sys.modules)
    with redirect_stdout(io.StringIO()) as printed, redirect_stderr(io.StringIO()) as errors:
        try:
            code = load_tool(words[0]).main(words[1:])
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


def test_help_imports_nothing_that_is_slow():
    slow = {"torch", "mmengine", "mmcv", "mmseg", "transformers", "sklearn", "matplotlib", "ray"}
    commands = [[tool, "--help"] for tool in TOOLS]
    for (tool, _), answer in zip(commands, answers(commands), strict=True):
        printed, errors, imported, code = answer
        assert printed.startswith("usage: "), tool
        assert (errors, slow & set(imported), code) == ("", set(), 0), tool


def test_mistakes_are_reported_before_torch_is_imported():
    cases = [
        ("adapt drive.mp4", "which model?"),
        ("adapt --save-every=0", "--save-every must be 1 frame or more"),
        ("reservoir prune none --least 1 --unused", "not allowed with"),
        ("report nothing", "no results.json in or below nothing"),
        ("summarize nothing", "no results.json in or below nothing"),
        ("sweep cls/digits_convnet.py --with-reservoir", "give --method, too"),
        ("check_dataset acdcc data", "invalid choice: 'acdcc'"),
        ("test_tta minicity/segformer-tiny_tnt.py", "did you mean minicity/segformer-tiny_tent.py"),
        ("test_tta minicity/segformer-tiny_tent.py --lr-grid 1", "belongs to --protocol fair"),
        ("test_tta minicity/segformer-tiny_tent.py none.pth", "no checkpoint file none.pth"),
        (
            "test_tta minicity/segformer-tiny_tent.py --cfg-options methd.lr=1",
            "no 'methd' (did you mean 'method'?)",
        ),
        ("test_cls cls/digits_convnet.py", "choose a row of it, --method NAME"),
        (
            "test_cls cls/digits_convnet.py --method=tent --with-reservoir=robst",
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
