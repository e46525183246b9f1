import json

import pytest

from benchmarks import soak


def test_a_short_soak_notes_what_it_should(tmp_path, capsys):
    picture = tmp_path / "new" / "soak.png"
    assert soak.main(["--steps=150", "--every=60", f"--out={picture}"]) == 0
    notes = json.loads(picture.with_suffix(".json").read_text())
    assert [note["step"] for note in notes] == [60, 120, 150]
    assert 1 <= notes[0]["k"] <= notes[-1]["k"] <= 16
    assert all(note["state_kb"] > 0 and note["ms"] > 0 for note in notes)
    assert picture.stat().st_size > 1000
    assert "k: last fifth over second fifth" in capsys.readouterr().out


def test_growth_compares_the_end_with_the_time_after_the_start():
    notes = [{"k": k} for k in (1, 1, 4, 4, 4, 4, 4, 4, 5, 5)]
    assert soak.growth(notes, "k") == pytest.approx(5 / 4)
