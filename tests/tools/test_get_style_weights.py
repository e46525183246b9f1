"""The command line that gets the weights of the style encoder."""

import pytest

from mmseg_reservoir.core.style import StyleEncoder
from mmseg_reservoir.style_cache import front, store
from tools.get_style_weights import main


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """Weights that another machine stored; the cache of this one is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    state = StyleEncoder("seeded").features.state_dict()
    state = {name: 2 * value for name, value in state.items()}
    return store(front(state, "a test"), tmp_path / "copy.safetensors", "another machine")


def test_after_it_auto_means_the_stored_weights(copy, tmp_path, capsys):
    assert StyleEncoder("auto").weights == "seeded"
    assert main(["--from", str(copy)]) == 0
    stored = tmp_path / "cache" / "mmseg_reservoir" / "vgg19_front.safetensors"
    out = capsys.readouterr().out
    assert "used:   another machine" in out
    assert f"stored: {stored} (1.0 MB" in out
    assert "reservoir.style.weights=auto" in out
    encoder = StyleEncoder("auto")
    assert encoder.weights == str(stored)
    assert encoder.fingerprint() == StyleEncoder(str(copy)).fingerprint()
    assert encoder.fingerprint() != StyleEncoder("seeded").fingerprint()


def test_another_place(copy, tmp_path, capsys):
    target = tmp_path / "new" / "w.safetensors"
    assert main(["--from", str(copy), "--to", str(target)]) == 0
    assert f"reservoir.style.weights={target}" in capsys.readouterr().out
    assert target.is_file()
    assert not (tmp_path / "cache").exists()


def test_errors_are_one_line_and_exit_code_2(copy, tmp_path, capsys):
    assert main(["--from", "nowhere.pth"]) == 2
    assert main(["--from", str(copy), "--to", str(tmp_path / "w.pth")]) == 2
    (tmp_path / "file").write_text("in the way")
    assert main(["--from", str(copy), "--to", str(tmp_path / "file" / "w.safetensors")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "no file nowhere.pth" in lines[0]
    assert "must end in .safetensors" in lines[1]
