from mmseg_reservoir.report.timeline import timeline


def test_stretches_of_one_expert():
    assert timeline([0, 0, 1, 1, 1, 0]) == "0-1: 0 | 2-4: 1 | 5: 0"
    assert timeline([]) == ""
