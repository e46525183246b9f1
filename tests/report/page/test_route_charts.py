from run_records import record, rich_record

from mmseg_reservoir.report.page.route_charts import route_charts, time_chart
from mmseg_reservoir.report.shown_run import ShownRun


def charts(results):
    return {chart.title: chart.figure.data[0] for chart in route_charts(ShownRun("R", results))}


def test_every_chart_has_the_numbers_of_the_run():
    found = charts(rich_record())
    assert list(found) == ["Experts and domains", "Experts over time", "Posterior entropy", "Guard"]
    assert [list(row) for row in found["Experts and domains"].text] == [[9, 0], [0, 9]]
    assert [list(row) for row in found["Experts over time"].z] == [[1, 0] * 3, [0, 1] * 3]
    entropy = found["Posterior entropy"]
    assert dict(zip(entropy.x, entropy.y, strict=True)) == {
        f"{domain} {round}": value
        for round in (1, 2, 3)
        for domain, value in (("fog", 0.0), ("night", 0.25))
    }
    assert (list(found["Guard"].x), list(found["Guard"].y)) == ([5], ["expert 1"])


def test_a_quiet_guard_has_a_chart_and_no_guard_none():
    quiet = rich_record(guard={"events": []})
    assert list(charts(quiet)["Guard"].x) == []
    notes = {chart.title: chart.note for chart in route_charts(ShownRun("R", quiet))}
    assert notes["Guard"].startswith("No alarm: no expert lost classes")
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
    assert "1 trials of another reach, 1 taken" in chart.note
    nothing = rich_record(alignment={"layers": 2, "experts": {}, "events": []})
    assert "Alignment" not in charts(nothing)


def test_time_by_stage():
    runs = [ShownRun("TENT", record()), ShownRun("R", rich_record())]
    bars = {bar.name: list(bar.x) for bar in time_chart(runs).figure.data}
    bars["adapt and predict"][0] = round(bars["adapt and predict"][0])
    assert bars == {"adapt and predict": [20.0, 15.0], "style": [None, 4.0], "route": [None, 1.0]}
    untimed = record()
    for route in untimed["routes"]:
        route["seconds"] = None
    assert time_chart([ShownRun("a", untimed)]) is None
