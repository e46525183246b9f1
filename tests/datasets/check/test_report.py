import io
import shutil

import pytest
from rich.console import Console

from mmseg_reservoir.datasets.check.checks import check_all
from mmseg_reservoir.datasets.check.report import show, summarize, verdict
from mmseg_reservoir.datasets.manifest import manifest_hash
from mmseg_reservoir.io.files import file_digest


def summary_of(small, **options):
    survey = small.survey(**options)
    return summarize(survey, check_all(survey))


def test_counts_and_hashes_of_a_cell(small):
    cell = summary_of(small)["cells"][0]
    paths = [small.image("fog", 0), small.image("fog", 1)]
    paths += [small.label("fog", 0), small.label("fog", 1)]
    assert cell == {
        "split": "train",
        "condition": "fog",
        "images": 2,
        "labels": 2,
        "pairs": 2,
        "expected": 2,
        "ok": True,
        "manifest": manifest_hash(paths, small.root),
        "content": manifest_hash(paths, small.root, {path: file_digest(path) for path in paths}),
    }


def test_absent_splits_are_notes_without_hashes(small):
    summary = summary_of(small)
    assert summary["ok"] is True
    assert summary["problems"] == []
    assert [note["count"] for note in summary["notes"]] == [2]
    absent = summary["cells"][2]
    assert (absent["labels"], absent["manifest"], absent["content"]) == (None, None, None)


def test_problems_are_grouped_and_tell_the_fix(small):
    shutil.rmtree(small.root / "gt/rain")
    summary = summary_of(small)
    assert summary["ok"] is False
    assert [cell["ok"] for cell in summary["cells"]] == [True, False, True, True]
    (group,) = summary["problems"]
    assert (group["title"], group["count"]) == ("images without a label", 2)
    assert "gt_trainval.zip" in group["fix"]
    assert str(small.root) in group["fix"]


def test_fast_has_no_hash_of_content_and_damage_does_not_stop_it(small):
    small.image().unlink()
    small.image().symlink_to("nowhere.png")
    summary = summary_of(small, fast=True)
    assert summary["decoded"] is False
    assert summary["cells"][0]["content"] is None
    assert summary["problems"][0]["found"][0].endswith(
        "cannot be opened: No such file or directory"
    )
    there = [small.image("fog", 1), small.label("fog", 0), small.label("fog", 1)]
    assert summary["cells"][0]["manifest"] == manifest_hash(there, small.root)


def shown(small, examples=5, **options):
    console = Console(file=io.StringIO(), width=60)
    show(summary_of(small, **options), console, examples)
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
    summary = summary_of(small)
    text = shown(small)
    for cell in summary["cells"][:2]:
        assert f"names+sizes {cell['manifest']}\n" in text
        assert f"content     {cell['content']}\n" in text


def test_names_with_brackets_are_printed_as_they_are(small):
    small.write(small.image().with_name("[red]_rgb_anon.png"), [[[1, 2, 3]]])
    assert "[red]_rgb_anon.png" in shown(small)


def test_fast_says_what_it_left_out(small):
    assert "no file was read" in verdict(summary_of(small, fast=True))
