import io

import pytest
from rich.console import Console

from mmseg_reservoir.check.checks import check_all
from mmseg_reservoir.check.show import show, verdict
from mmseg_reservoir.check.summary import summarise


def shown(small, examples=5, **options):
    survey = small.survey(**options)
    console = Console(file=io.StringIO(), width=60)
    show(summarise(survey, check_all(survey)), console, examples)
    return console.file.getvalue()


def test_table_and_verdict(small):
    text = shown(small)
    rows = [line.split() for line in text.splitlines() if line.split()[:1] in (["train"], ["test"])]
    assert rows[0] == ["train", "fog", "2", "2", "2", "2", "ok"]
    assert rows[2] == ["test", "fog", "0", "-", "-", "-", "absent"]
    assert text.splitlines()[-1] == f"ACDC in {small.root}: fine"


@pytest.mark.parametrize(("examples", "more"), [(1, 1), (2, None)])
def test_examples_are_limited(small, examples, more):
    for index in range(2):
        small.image("rain", index).write_bytes(b"")
    text = shown(small, examples)
    assert text.count("  rgb_anon/rain/train/GOPR1/") == examples
    assert ("... and 1 more" in text) is (more is not None)
    assert "problem: empty files (2)" in text
    assert text.count("how to fix:") == 2  # the problem, and the note on the absent split
    assert text.splitlines()[-1].endswith("2 problems found")


def test_hashes_are_not_broken_by_a_narrow_terminal(small):
    survey = small.survey()
    summary = summarise(survey, check_all(survey))
    text = shown(small)
    for cell in summary["cells"][:2]:
        assert f"names+sizes {cell['manifest']}\n" in text
        assert f"content     {cell['content']}\n" in text


def test_names_with_brackets_are_printed_as_they_are(small):
    small.write(small.image().with_name("[red]_rgb_anon.png"), [[[1, 2, 3]]])
    assert "[red]_rgb_anon.png" in shown(small)


def test_fast_says_what_it_left_out(small):
    survey = small.survey(fast=True)
    assert "no file was read" in verdict(summarise(survey, check_all(survey)))
