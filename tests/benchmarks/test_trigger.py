import pytest

from benchmarks.trigger import speed_up, summarize

COST = {"style": 1.0, "adapt": 3.0, "rest": 1.0}


def run(rounds, updates=40, rests=0, probes=0):
    trigger = {"trigger": {"rests": rests}} if rests else {}
    return {"rounds": rounds, "updates": updates, "frames": 40, "probes": probes, **trigger}


def test_throughput_follows_from_the_share_of_rests_and_the_guards_passes():
    off = run([30.0])
    assert speed_up(off, off, COST) == 1
    assert speed_up(run([30.0], rests=40), off, COST) == pytest.approx(4 / 2)
    assert speed_up(run([30.0], rests=20), off, COST) == pytest.approx(4 / 3)
    assert speed_up(run([30.0], rests=20, probes=4), off, COST) == pytest.approx(4 / 3.3)


def test_rows_tell_differences_draw_by_draw_to_no_trigger():
    runs = {
        ("tent", "off"): [run([30.0, 32.0]), run([31.0, 31.0])],
        ("tent", "every4"): [run([30.0, 31.0], 10, 30), run([31.0, 31.5], 10, 30)],
        ("becotta", "every4"): [run([30.0, 31.0], 10, 30)],  # with nothing to compare with
    }
    off, every = summarize(runs, COST)
    assert off == ["tent", "off", "1.00", "1.00", "30.50", "31.50", "+0.00, +0.00", "+0.00, +0.00"]
    assert every[:4] == ["tent", "every4", "0.25", "1.60"]
    assert every[6:] == ["-1.00, +0.50", "-0.50, +0.25"]
