from run_records import rich_record, styles_of

from mmseg_reservoir.report.page.style_charts import style_charts
from mmseg_reservoir.report.shown_run import ShownRun
from mmseg_reservoir.runs.style_sample import Styles


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
