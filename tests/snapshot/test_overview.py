import pytest
from small_reservoirs import make_pipeline, show

from mmseg_reservoir.snapshot import save_reservoir
from mmseg_reservoir.snapshot.folder import read_folder
from mmseg_reservoir.snapshot.overview import nearest, overview


@pytest.mark.parametrize("kind", ["style", "segment"])
def test_a_line_per_expert_with_its_nearest(kind, tmp_path):
    pipeline = make_pipeline(kind, care=True)
    show(pipeline, ["clear", "dark", "bright"])
    folder = save_reservoir(pipeline, tmp_path / "saved")
    snapshot = read_folder(folder)
    text = overview(snapshot, folder)
    assert text.startswith("3 experts of at most 6, by Tent (Adam) and ")
    lines = [line for line in text.splitlines() if line.startswith("│")]
    assert len(lines) == 4
    cells = [cell.strip() for cell in lines[2].split("│")[1:-1]]
    tally = snapshot.experts[1].tally
    watch = snapshot.experts[1].parts["guard"]["health"]
    care = [f"{watch['scale']:.3g}", str(watch["alarms"])]
    assert cells[:6] == ["1", *map(str, vars(tally).values()), *care]
    other, distance = nearest(snapshot, 1)
    assert cells[6] == str(other)
    assert cells[7] == f"{distance:.2f}"
    assert distance > 1  # else they would be one domain
    assert float(cells[8]) > 0


def test_an_oracle_has_no_neighbours(tmp_path):
    pipeline = make_pipeline("oracle")
    show(pipeline, ["clear", "dark"])
    folder = save_reservoir(pipeline, tmp_path / "saved")
    assert nearest(read_folder(folder), 1)[0] is None
    last = overview(read_folder(folder), folder).splitlines()[-3]
    cells = [cell.strip() for cell in last.split("│")[1:-1]]
    assert cells[:8] == ["2", "12", "1", "6", "-", "-", "-", "-"]
