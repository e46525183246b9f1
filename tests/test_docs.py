"""Links, files, modules, Python blocks and commands of the documents are right."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

from mmseg_reservoir.cli.app import VERBS, find_verb

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ROOMS = [path.name for path in (ROOT / "mmseg_reservoir").iterdir() if path.is_dir()]
TOOLS = {"tools/test_tta.py": "test"}
FLAGS = {"--k-max", "--experts", "--least", "--unused", "--checkpoint"}  # of `reservoir experts`
TOP = ["benchmarks", "checkpoints", "configs", "docs", "mmseg_reservoir", "tests", "tools"]
FILE = re.compile(rf"(?<![\w/.])((?:{'|'.join([*TOP, *ROOMS])})/[\w./-]+\.(?:py|md|yaml))(?![\w*])")


def anchors(text):
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_there(name):
    return any((ROOT / folder / name).is_file() for folder in ("", "mmseg_reservoir", "configs"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        name, _, anchor = target.partition("#")
        linked = page.parent / name if name else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked.read_text(encoding="utf-8")), target
    assert [name for name in FILE.findall(text) if not is_there(name) and "NAME" not in name] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_and_python_blocks(page):
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        compile(block, page.name, "exec")
        for module, names in re.findall(r"^from (mmseg_reservoir[\w.]*) import (.+)$", block, re.M):
            for name in names.split(", "):
                assert hasattr(importlib.import_module(module), name), f"{module}.{name}"
    for dotted in re.findall(r"`(mmseg_reservoir(?:\.\w+)+)`", text):
        module, _, name = dotted.rpartition(".")
        if not hasattr(importlib.import_module(module), name):
            importlib.import_module(dotted)


def commands(page):
    """Yield verb and line of every command in a block or between backticks, without comments."""
    text = re.sub(r"\\\n *|\n +(?=\[--)", " ", page.read_text(encoding="utf-8"))
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.DOTALL | re.M)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    lines += re.findall(r"^ {4,}(\S.*)$", text, re.M) + re.findall(r"`([^`\n]+)`", text)
    for line in lines:
        if match := re.match(r"(?:reservoir|python) (?!=)(\S+)", line):
            verb = TOOLS.get(match[1], match[1])
            if verb.islower() and not verb.startswith(("benchmarks/", "-")):
                yield verb, re.sub(r"  +#.*|   +\S.*", "", line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands(page, capsys):
    for verb, line in commands(page):
        with pytest.raises(SystemExit):
            find_verb(verb).parse(["--help"])
        options = re.findall(r"--[a-z][\w-]*", capsys.readouterr().out)
        assert set(re.findall(r"--[a-z][\w-]*", line)) <= {*options, *FLAGS}, line
        if not re.search(r"\.\.\.|\||(?<!=)\[|^\S+ \S+ ?\S*$", line):
            assert find_verb(verb).parse(shlex.split(line)[2:]), line


def test_every_verb_is_documented():
    shown = {verb for page in PAGES for verb, _ in commands(page)}
    assert {verb for group in VERBS.values() for verb in group} - shown <= {"demo", "train"}
