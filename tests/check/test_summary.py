import shutil

from mmseg_reservoir.check.checks import check_all
from mmseg_reservoir.check.manifest import manifest_hash
from mmseg_reservoir.check.summary import summarise
from mmseg_reservoir.files import file_digest


def summary_of(small, **options):
    survey = small.survey(**options)
    return summarise(survey, check_all(survey))


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
