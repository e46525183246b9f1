import io
from pathlib import Path

import cv2
import matplotlib.image
import pytest
from matplotlib.figure import Figure
from run_records import rich_record, styles_of

from mmseg_reservoir.report.charts import (
    assignment_figure,
    domain_count_figure,
    memory_figure,
    plot_comparison,
    plot_curves,
    plot_errors,
    sensitivity_figure,
    style_figure,
)
from mmseg_reservoir.report.summary import Group, sweep


def comparison_results(shift: float, reservoir: bool) -> dict:
    visits = [
        {"round": r, "domain": d, "mIoU": 50 + shift * r + i}
        for r in (1, 2, 3)
        for i, d in enumerate(("fog", "night"))
    ]
    routes = [
        {"round": v["round"], "domain": v["domain"], "expert": i, "k": 2, "seconds": 0.02}
        for v in visits
        for i in [int(reservoir and v["domain"] == "night")] * 4
    ]
    return {
        "visits": visits,
        "routes": routes,
        "reservoir": reservoir,
        "updates": {"updates": len(routes)},
    }


@pytest.fixture
def runs():
    return {"TENT": comparison_results(-1, False), "TENT + Reservoir": comparison_results(1, True)}


def test_plot_is_drawn(runs, tmp_path):
    plot_comparison(runs, tmp_path / "new" / "plot.png")
    picture = cv2.imread(str(tmp_path / "new" / "plot.png"))
    assert picture.shape[1] > 800
    assert picture.std() > 5  # something is on it


def seed_results(seed, start):
    visits = [
        {"round": r, "domain": d, "mIoU": start - r + seed}
        for r in (1, 2, 3)
        for d in ("fog", "snow")
    ]
    return {"seed": seed, "reservoir": False, "visits": visits, "routes": []}


def test_one_panel_per_family_in_one_picture(tmp_path):
    runs = {"plain": 30, "ours": 40}
    curves = {
        name: Group(name, {Path(f"{seed}"): seed_results(seed, start) for seed in (0, 1)}).scores[
            "mean"
        ]
        for name, start in runs.items()
    }
    plot_curves({"TENT": curves}, tmp_path / "new" / "one.png", "mIoU")
    plot_curves({"TENT": curves, "CoTTA*": curves}, tmp_path / "two.png", "mIoU")
    one = matplotlib.image.imread(tmp_path / "new" / "one.png")
    two = matplotlib.image.imread(tmp_path / "two.png")
    assert two.shape[1] == 2 * one.shape[1]
    assert one[..., :3].std() > 0.05  # something is drawn


def error_results(errors, reservoir=False):
    visits = [
        {"round": r, "domain": d, "error": e + shift}
        for r, e in enumerate(errors, start=1)
        for d, shift in (("fog", -1), ("snow", 1))
    ]
    routes = [
        {"domain": v["domain"], "expert": int(reservoir and v["domain"] == "snow"), "k": 2}
        for v in visits
    ]
    return {"visits": visits, "routes": routes, "reservoir": reservoir, "cpu_seconds": 12.3}


RUNS = {
    "TENT": error_results([20, 30, 40, 60, 80]),
    "TENT + ReservoirTTA": error_results([20, 19, 18, 18, 18], reservoir=True),
}


def drawn_figures(monkeypatch):
    figures, save = [], Figure.savefig

    def save_and_keep(figure, *args, **options):
        figures.append(figure)
        save(figure, *args, **options)

    monkeypatch.setattr(Figure, "savefig", save_and_keep)
    return figures


def test_a_method_and_its_reservoirs_share_an_axis(tmp_path, monkeypatch):
    figures = drawn_figures(monkeypatch)
    robust = {"TENT + robust": error_results([20, 17, 16, 16, 15], reservoir=True)}
    plot_errors({**RUNS, **robust, "EATA": error_results([20, 20])}, tmp_path / "plot.png")
    drawn = {
        axis.get_title(): {line.get_label(): line.get_ydata()[-1] for line in axis.get_lines()}
        for axis in figures[0].axes
    }
    assert drawn == {"TENT": {"plain": 80, "published": 18, "robust": 15}, "EATA": {"plain": 20}}
    colours = {line.get_label(): line.get_color() for line in figures[0].axes[0].get_lines()}
    assert len(set(colours.values())) == 3
    legend = [text.get_text() for text in figures[0].legends[0].get_texts()]
    assert legend == ["plain", "published", "robust"]


def test_a_method_that_only_runs_with_a_reservoir_has_its_color(tmp_path, monkeypatch):
    figures = drawn_figures(monkeypatch)
    plot_errors({"align": error_results([20, 10], reservoir=True)}, tmp_path / "plot.png")
    assert [line.get_label() for line in figures[0].axes[0].get_lines()] == ["robust"]


def drawn(figure):
    """The axes that are shown, after the figure has been drawn as a whole."""
    figure.savefig(io.BytesIO(), dpi=40)
    return [axis for axis in figure.axes if axis.axison]


def test_assignment_has_the_share_in_every_cell():
    axis, _ = drawn(assignment_figure({"R": rich_record()}))
    assert axis.images[0].get_array().tolist() == [[1, 0], [0, 1]]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["fog", "night"]
    assert [text.get_text() for text in axis.texts] == ["1.00", "1.00"]


def test_styles_have_points_and_trajectories():
    results = rich_record()
    (axis,) = drawn(style_figure({"R": (results, styles_of(results))}, "pca"))
    assert [len(points.get_offsets()) for points in axis.collections] == [9, 9]
    assert [len(line.get_xdata()) for line in axis.lines] == [3, 3]


def test_domain_count_has_a_line_per_run():
    results = rich_record()
    for i, route in enumerate(results["routes"]):
        route["k"] = 1 + (i > 2) + (i > 8)
    left, right = drawn(domain_count_figure({"seed 0": results, "seed 1": rich_record()}))
    assert left.lines[0].get_ydata().tolist() == [1, 1, 1, 2, 2, 2]  # the first round
    assert right.lines[0].get_ydata().tolist() == [2, 3, 3]
    assert [line.get_label() for line in left.lines] == ["seed 0", "seed 1"]


def test_memories_have_a_panel_per_size_and_kind():
    axes = drawn(memory_figure(rich_record(), [2, 4]))
    assert [axis.get_title() for axis in axes] == [
        "FIFO, M = 2",
        "reservoir sampling, M = 2",
        "FIFO, M = 4",
        "reservoir sampling, M = 4",
    ]
    assert all(len(axis.collections) == 2 for axis in axes)


def test_sensitivity_has_scores_and_experts_by_value():
    runs = [rich_record(options={"reservoir": {"k_max": k}}) for k in (8, 2)]
    left, right = drawn(sensitivity_figure(sweep("k_max", runs)))
    assert [label.get_text() for label in left.get_xticklabels()] == ["2", "8"]
    means, last = (container.lines[0].get_ydata() for container in left.containers)
    assert (list(means), list(last)) == ([44.0, 44.0], [43.0, 43.0])
    assert list(right.containers[0].lines[0].get_ydata()) == [2, 2]
    assert right.get_ylabel() == "experts K"


@pytest.mark.parametrize("count", [1, 2, 4])
def test_any_number_of_runs_has_room(count):
    runs = {f"run {i}": rich_record() for i in range(count)}
    assert len(drawn(assignment_figure(runs))) == count + 1  # and the scale
