import json

from mmseg_reservoir.fleet.camera_run import CameraRun
from mmseg_reservoir.fleet.merging_point import MergingPoint
from mmseg_reservoir.footage.fleet_footage import InferencerOrder


def lines(folder):
    told = [json.loads(line) for line in (folder / "stream.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in told]


def test_a_stream_goes_on_after_its_last_state(minicity, tmp_path):
    """Half of it at first, since the camera saw no more yet; then all of it."""
    source = dict(data_root=str(minicity / "rgb_anon/clear/train"), img_suffix="_rgb_anon.png")
    footage = tmp_path / "footage"
    footage.mkdir()
    images = sorted(minicity.glob("rgb_anon/[fn]*/train/*/*.png"))
    for number, path in enumerate(images):
        (footage / f"{number}.png").write_bytes(path.read_bytes())
    options = {
        "source_images": source,
        "device": "cpu",
        "cfg_options": {
            "reservoir.calibration.cache": str(tmp_path / "cache"),
            "reservoir.pipeline.unfit": "learn",  # six frames are too few for a domain
        },
    }
    model, shown = "minicity/segformer-tiny_tent_robust", {"shown": "none"}
    point = MergingPoint(tmp_path / "reservoir")

    def run(name, exchange=None, break_at=None):
        folder = tmp_path / name
        order = InferencerOrder(str(footage), folder, model, options, written=shown)

        def stop(*words):
            if words[1] == break_at:
                raise KeyboardInterrupt
            return exchange(*words)

        trade = None if exchange is None else stop
        return CameraRun(name, folder, order, merge_every=3, save_every=2).run(trade)

    assert run("whole")["frames"] == len(images) == 6
    try:
        run("broken", point.exchange, break_at=2)
    except KeyboardInterrupt:
        assert len(lines(tmp_path / "broken")) == 6
    assert run("broken", point.exchange)["exchanges"] == 2
    assert lines(tmp_path / "broken") == lines(tmp_path / "whole")
    assert sum(expert.tally.images for expert in point.snapshot.experts) == 6
