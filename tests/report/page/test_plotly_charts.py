from run_records import record, rich_record, styles_of

from mmseg_reservoir.report.colors import DOMAIN_COLORS, RUN_COLORS
from mmseg_reservoir.report.page.plotly_charts import (
    class_charts,
    extra_set_charts,
    route_charts,
    score_charts,
    time_chart,
)
from mmseg_reservoir.report.shown_run import ShownRun
from mmseg_reservoir.runs.style_sample import Styles

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
    assert extra_set_charts(RUNS) == []
    also = [{"round": r, "domain": "clear", "mIoU": 70.0 - r} for r in (1, 2)]
    (chart,) = extra_set_charts([*RUNS, ShownRun("also", record(also=also))])
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


def charts(results):
    return {chart.title: chart.figure.data[0] for chart in route_charts(ShownRun("R", results))}


def test_every_chart_has_the_numbers_of_the_run():
    found = charts(rich_record())
    assert list(found) == ["Experts and domains", "Experts over time", "Routing entropy", "Guard"]
    assert [list(row) for row in found["Experts and domains"].text] == [[9, 0], [0, 9]]
    assert [list(row) for row in found["Experts over time"].z] == [[1, 0] * 3, [0, 1] * 3]
    entropy = found["Routing entropy"]
    assert dict(zip(entropy.x, entropy.y, strict=True)) == {
        f"{domain} {round}": value
        for round in (1, 2, 3)
        for domain, value in (("fog", 0.0), ("night", 0.25))
    }
    assert (list(found["Guard"].x), list(found["Guard"].y)) == ([5], ["expert 1"])


def test_a_quiet_guard_has_a_chart_and_no_guard_none():
    quiet = rich_record(guard={"events": []})
    assert list(charts(quiet)["Guard"].x) == []
    captions = {chart.title: chart.caption for chart in route_charts(ShownRun("R", quiet))}
    assert captions["Guard"].startswith("No alarm: no expert lost classes")
    assert "Guard" not in charts(rich_record(guard=None))


def test_alignment_by_expert_and_layer():
    strength = {"stem": [0.9, 0.5], "deep": [0.2, 0.4]}
    experts = {
        "1": {"images": 9, "reach": 1.0, "strength": strength},
        "2": {"images": 9, "reach": 0.25, "strength": {"stem": [0.6, 0.6]}},
    }
    trial = {"expert": 1, "images": 21, "from": 0.5, "to": 1.0, "gain": 0.1, "taken": True}
    aligned = rich_record(alignment={"layers": 2, "experts": experts, "events": [trial]})
    cells = charts(aligned)["Alignment"]
    assert list(cells.x) == ["stem", "deep"]
    assert list(cells.y) == ["expert 1 (reach 1)", "expert 2 (reach 0.25)"]
    assert [[round(z, 6) for z in row] for row in cells.z] == [[0.7, 0.3], [0.6, 0.0]]
    (chart,) = [c for c in route_charts(ShownRun("R", aligned)) if c.title == "Alignment"]
    assert "Trials of another reach: 1, adopted: 1" in chart.caption
    nothing = rich_record(alignment={"layers": 2, "experts": {}, "events": []})
    assert "Alignment" not in charts(nothing)


def test_time_by_stage():
    runs = [ShownRun("TENT", record()), ShownRun("R", rich_record())]
    bars = {bar.name: list(bar.x) for bar in time_chart(runs)[0].figure.data}
    bars["adapt and predict"][0] = round(bars["adapt and predict"][0])
    assert bars == {"adapt and predict": [20.0, 15.0], "style": [None, 4.0], "route": [None, 1.0]}
    untimed = record()
    for route in untimed["routes"]:
        route["seconds"] = None
    assert time_chart([ShownRun("a", untimed)]) == []


def style_charts(run):
    return [chart for chart in route_charts(run) if "styles" in chart.title]


def test_points_of_every_domain_and_a_path_of_every_expert():
    results = rich_record()
    charts = style_charts(ShownRun("R", results, styles_of(results)))
    assert [chart.title for chart in charts] == ["PCA of styles", "t-SNE of styles"]
    for chart in charts:
        sizes = {trace.name: len(trace.x) for trace in chart.figure.data}
        assert sizes == {"fog": 9, "night": 9, "expert 0": 3, "expert 1": 3}
        fog = chart.figure.data[0]
        assert [list(row) for row in fog.customdata] == [
            [0, r] for r in (1, 2, 3) for _ in range(3)
        ]


def test_too_few_styles_are_no_chart():
    results = rich_record()
    assert style_charts(ShownRun("R", results)) == []
    vectors, routes = styles_of(results)
    assert style_charts(ShownRun("R", results, Styles(vectors[:4], routes[:4]))) == []
