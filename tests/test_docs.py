"""Links, files, modules and Python blocks that the documents name exist."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ROOMS = [path.name for path in (ROOT / "mmseg_reservoir").iterdir() if path.is_dir()]
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
    assert [name for name in FILE.findall(text) if not is_there(name)] == []


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
