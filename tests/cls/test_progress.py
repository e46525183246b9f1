from mmseg_reservoir.cls.progress import StreamProgress

VISIT = {"round": 2, "domain": "fog", "k": 3, "error": 12.34}


def test_plain_lines_say_where_the_stream_is(capsys):
    with StreamProgress(total=3, rounds=20, interval=0.0) as progress:
        progress.advance(VISIT, expert=1)
    line = capsys.readouterr().out
    assert line.startswith("round 2/20 fog: 1/3 batches, ")
    assert line.endswith("expert 1, K 3, error 12.3\n")


def test_length_need_not_be_known_and_quiet_is_quiet(capsys):
    with StreamProgress(total=None, interval=0.0) as progress:
        progress.advance(VISIT, expert=1)
    assert "round 2 fog: 1 batches, expert 1" in capsys.readouterr().out
    with StreamProgress(total=1, quiet=True, interval=0.0) as progress:
        progress.advance(VISIT, expert=1)
    assert capsys.readouterr().out == ""
