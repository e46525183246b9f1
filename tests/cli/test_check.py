"""The command line that checks data sets."""

import json
import shutil

import pytest

from mmseg_reservoir.cli.check import main


def test_a_good_minicity(minicity, tmp_path, capsys):
    out = tmp_path / "reports" / "minicity.json"
    assert main(["minicity", str(minicity), "--workers", "1", "--json", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith(f"MiniCity in {minicity}: fine\n")
    summary = json.loads(out.read_text())
    assert summary["ok"] is True
    assert sum(cell["pairs"] for cell in summary["cells"]) == 8 + 2 + 4 * (3 + 1)
    for cell in summary["cells"]:
        assert cell["content"] in printed
        assert cell["manifest"] in printed


def test_a_damaged_minicity(minicity, tmp_path, capsys):
    root = tmp_path / "copy"
    shutil.copytree(minicity, root)
    fog, snow = (sorted((root / "rgb_anon" / c / "train").rglob("*.png")) for c in ("fog", "snow"))
    fog[0].write_bytes(fog[0].read_bytes()[:-50])
    snow[0].unlink()
    assert main(["minicity", str(root), "--workers", "1"]) == 1
    printed = capsys.readouterr().out
    assert f"{fog[0].relative_to(root)} is truncated" in printed
    assert "rgb_anon/snow/train: 2, expected 3" in printed
    assert "problem: labels without an image (1)" in printed
    assert f"reservoir minicity {root} --overwrite" in printed
    assert printed.endswith("3 problems found\n")
    assert main(["minicity", str(root), "--fast"]) == 1
    assert "truncated" not in capsys.readouterr().out


def test_acdc_as_published_by_its_names(tmp_path, capsys):
    for split, count in (("train", 400), ("val", 100)):
        for condition in ("fog", "night", "rain", "snow"):
            here = f"{condition}/{split}/GOPR0001"
            (tmp_path / "rgb_anon" / here).mkdir(parents=True)
            (tmp_path / "gt" / here).mkdir(parents=True)
            for index in range(106 if (split, condition) == ("val", "night") else count):
                (tmp_path / "rgb_anon" / here / f"{index}_rgb_anon.png").write_bytes(b"x")
                (tmp_path / "gt" / here / f"{index}_gt_labelTrainIds.png").write_bytes(b"x")
    assert main(["acdc", str(tmp_path), "--fast"]) == 0
    printed = capsys.readouterr().out
    assert "note: splits that are not there (4)" in printed
    assert "fine (--fast: no file was read" in printed


@pytest.mark.parametrize(
    "wrong", [["acdc", "absent"], ["minicity", "."], ["acdc", ".", "--workers", "0"], ["mars", "."]]
)
def test_wrong_usage_is_exit_code_2(wrong, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        code = main(wrong)
    except SystemExit as error:
        code = error.code
    assert code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "check_dataset" in captured.err or "error:" in captured.err


def test_one_level_off_names_the_root(minicity, capsys):
    assert main(["minicity", str(minicity / "gt")]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert f"did you mean {minicity}?" in captured.err
