from run_records import record, rich_record

from mmseg_reservoir.report.page.base import DOMAIN_COLORS, RUN_COLORS
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


def test_lines_that_coincide_are_told_apart():
    runs = [ShownRun(name, record()) for name in "abcde"]
    lines = score_charts(runs)[0].figure.data
    assert len({line.line.dash for line in lines}) == 5
    assert len({line.marker.symbol for line in lines}) == 5
    assert len({line.line.color for line in lines}) == 5
    sizes = [line.marker.size for line in lines]
    assert sizes == sorted(set(sizes), reverse=True)  # those below are seen around those above


def test_runs_and_domains_have_palettes_of_their_own():
    assert not set(RUN_COLORS) & set(DOMAIN_COLORS)


def test_the_legend_names_every_line_as_it_is_drawn():
    chart = score_charts(RUNS)[1]
    assert [(key.name, key.color, key.dash) for key in chart.legend] == [
        ("TENT", RUN_COLORS[0], ""),
        ("R", RUN_COLORS[1], "6 4"),
    ]
