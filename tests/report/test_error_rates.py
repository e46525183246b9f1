import cv2
from matplotlib.figure import Figure

from mmseg_reservoir.report.error_rates import collapsed, error_table, plot_errors


def results(errors, reservoir=False):
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
    "TENT": results([20, 30, 40, 60, 80]),
    "TENT + ReservoirTTA": results([20, 19, 18, 18, 18], reservoir=True),
}


def test_a_row_per_run():
    lines = [line for line in error_table(RUNS).splitlines() if "TENT" in line]
    cells = [[c.strip() for c in line.split("│")[1:-1]] for line in lines]
    assert cells[0] == ["TENT", "20.0", "80.0", "46.0", "collapses", "2", "-", "12"]
    assert cells[1] == ["TENT + ReservoirTTA", "20.0", "18.0", "18.6", "", "2", "1.00", "12"]


def test_collapse_is_far_above_the_best_visit():
    assert collapsed([20, 18, 30])
    assert not collapsed([20, 18, 22])
    assert not collapsed([2, 1, 3])  # thrice, but two points
    assert not collapsed([80, 60, 20])


def test_plot_is_drawn(tmp_path):
    plot_errors({**RUNS, "EATA": results([20, 20])}, tmp_path / "new" / "plot.png")
    picture = cv2.imread(str(tmp_path / "new" / "plot.png"))
    assert picture.shape[1] > 400
    assert picture.std() > 5


def drawn_figures(monkeypatch):
    figures, save = [], Figure.savefig

    def save_and_keep(figure, *args, **options):
        figures.append(figure)
        save(figure, *args, **options)

    monkeypatch.setattr(Figure, "savefig", save_and_keep)
    return figures


def test_a_method_and_its_reservoirs_share_an_axis(tmp_path, monkeypatch):
    figures = drawn_figures(monkeypatch)
    robust = {"TENT + robust": results([20, 17, 16, 16, 15], reservoir=True)}
    plot_errors({**RUNS, **robust, "EATA": results([20, 20])}, tmp_path / "plot.png")
    drawn = {
        axis.get_title(): {line.get_label(): line.get_ydata()[-1] for line in axis.get_lines()}
        for axis in figures[0].axes
    }
    assert drawn == {
        "TENT": {"plain": 80, "published": 18, "robust": 15},
        "EATA": {"plain": 20},
    }
    colours = {line.get_label(): line.get_color() for line in figures[0].axes[0].get_lines()}
    assert len(set(colours.values())) == 3
    legend = [text.get_text() for text in figures[0].legends[0].get_texts()]
    assert legend == ["plain", "published", "robust"]


def test_a_method_that_only_runs_with_a_reservoir_has_its_color(tmp_path, monkeypatch):
    figures = drawn_figures(monkeypatch)
    plot_errors({"align": results([20, 10], reservoir=True)}, tmp_path / "plot.png")
    assert [line.get_label() for line in figures[0].axes[0].get_lines()] == ["robust"]
