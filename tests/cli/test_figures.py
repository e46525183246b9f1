import pytest
from run_records import rich_record, write

from mmseg_reservoir.cli import figures


@pytest.fixture
def runs(tmp_path):
    for k in (2, 4):
        write(tmp_path / f"k{k}", rich_record(options={"reservoir": {"k_max": k}}))
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ["assignment", "k2"],
        ["domain-count", "k2", "k4"],
        ["memory", "k2", "--sizes", "2", "4"],
        ["sensitivity", "k2", "k4", "--option", "k_max"],
    ],
    ids=lambda command: command[0],
)
def test_every_figure_is_a_command(runs, monkeypatch, capsys, command):
    monkeypatch.chdir(runs)
    assert figures.main([*command, "--out=new/figure.png"]) == 0
    assert (runs / "new/figure.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == "new/figure.png\n"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["tsne", "k2"], "has no styles.safetensors beside its results.json"),
        (["memory", "k2", "k4"], "of the stream of one run, got 2"),
        (["sensitivity", "k2", "k4"], "give the option that differs: --option k_max|m|q|"),
        (["assignment", "nothing"], "no results.json in or below nothing"),
    ],
)
def test_mistakes_end_in_one_line(runs, monkeypatch, capsys, command, message):
    monkeypatch.chdir(runs)
    assert figures.main(command) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
