from pathlib import Path

import matplotlib.image

from mmseg_reservoir.report.curves import plot_curves
from mmseg_reservoir.report.summary import Group


def results(seed, start):
    visits = [
        {"round": r, "domain": d, "mIoU": start - r + seed}
        for r in (1, 2, 3)
        for d in ("fog", "snow")
    ]
    return {"seed": seed, "reservoir": False, "visits": visits, "routes": []}


def test_one_panel_per_family_in_one_picture(tmp_path):
    groups = {
        name: Group(name, {Path(f"{seed}.json"): results(seed, start) for seed in (0, 1)})
        for name, start in [("plain", 30), ("ours", 40)]
    }
    plot_curves({"TENT": groups}, tmp_path / "new" / "one.png")
    plot_curves({"TENT": groups, "CoTTA*": groups}, tmp_path / "two.png")
    one = matplotlib.image.imread(tmp_path / "new" / "one.png")
    two = matplotlib.image.imread(tmp_path / "two.png")
    assert two.shape[1] == 2 * one.shape[1]
    assert one[..., :3].std() > 0.05  # something is drawn
