from run_records import record, rich_record

from mmseg_reservoir.report.page.score_charts import also_charts, class_charts, score_charts
from mmseg_reservoir.report.shown_run import ShownRun

RUNS = [ShownRun("TENT", record(rounds=2)), ShownRun("R", rich_record())]


def test_a_line_per_run_in_a_chart_per_domain():
    charts = score_charts(RUNS)
    assert [chart.title for chart in charts] == ["Mean over the domains", "fog", "night"]
    lines = charts[1].figure.data
    assert [(line.name, list(line.y)) for line in lines] == [
        ("TENT", [50.0, 49.0]),
        ("R", [50.0, 49.0, 48.0]),
    ]
    assert list(lines[1].x) == [1, 2, 3]
    assert list(charts[0].figure.data[0].y) == [45.0, 44.0]
    assert charts[0].figure.layout.yaxis.title.text == "mIoU (%)"


def test_classes_of_the_last_round():
    (chart,) = class_charts(RUNS)  # the other run has none
    cells = chart.figure.data[0]
    assert (chart.title, list(cells.x), list(cells.y)) == ("R", ["fog", "night"], ["road"])
    assert [list(row) for row in cells.z] == [[53.0, 43.0]]


def test_sets_beside_the_stream_by_round():
    assert also_charts(RUNS) == []
    also = [{"round": r, "domain": "clear", "mIoU": 70.0 - r} for r in (1, 2)]
    (chart,) = also_charts([*RUNS, ShownRun("also", record(also=also))])
    (line,) = chart.figure.data
    assert (chart.title, line.name, list(line.y)) == ("clear", "also", [69.0, 68.0])
