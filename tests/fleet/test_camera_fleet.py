"""A fleet on two workers of Ray."""

import pytest
from small_fleets import camera, lines_of

from mmseg_reservoir.fleet.camera_fleet import run_fleet
from mmseg_reservoir.snapshot import read_folder


@pytest.mark.slow
def test_a_camera_that_is_killed_goes_on_and_nothing_counts_twice(tmp_path, two_workers):
    single = camera(tmp_path / "single", ("dark", "bright"), seed=1)
    single.run()
    said = []
    cameras = [
        camera(tmp_path / "apart" / "killed", ("dark", "bright"), seed=1, die_at=7),
        camera(tmp_path / "apart" / "wrong", ("dark",), k_max=0),
    ]
    apart = run_fleet(two_workers, cameras, tmp_path / "unused", merging=False, report=said.append)
    cameras = [
        camera(tmp_path / "together" / "killed", ("dark", "bright"), seed=1, die_at=7),
        camera(tmp_path / "together" / "other", ("clear", "dark"), seed=2),
        camera(tmp_path / "together" / "third", ("flat",), seed=3),
    ]
    together = run_fleet(two_workers, cameras, tmp_path / "merged", report=said.append)
    assert lines_of(tmp_path / "apart/killed") == lines_of(tmp_path / "single")
    assert apart["killed"]["k"] == 3
    assert "k_max must be a whole number of at least 1" in apart["wrong"]["error"]
    assert not (tmp_path / "unused").exists()
    assert [outcome["frames"] for outcome in together.values()] == [12, 12, 6]
    images = [expert.tally.images for expert in read_folder(tmp_path / "merged").experts]
    assert sum(images) == 2 * (12 + 12 + 6)
    assert any(line.startswith("killed: 12 frames") for line in said)
