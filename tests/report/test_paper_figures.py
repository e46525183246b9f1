import io

import pytest
from run_records import rich_record, styles_of

from mmseg_reservoir.report.paper_figures import (
    assignment_figure,
    domain_count_figure,
    memory_figure,
    sensitivity_figure,
    style_figure,
)
from mmseg_reservoir.report.sensitivity import sweep


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
