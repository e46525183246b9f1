from pathlib import Path

from mmseg_reservoir.cli import fleet

MODEL = "--model=minicity/segformer-tiny_tent_robust"


def test_every_stream_has_a_folder_of_its_own(minicity, tmp_path):
    fog = minicity / "rgb_anon/fog/train"
    night = minicity / "rgb_anon/night/train"
    args = fleet.main.parse([str(fog), str(night), MODEL, f"--out={tmp_path}", "--merge-every=7"])
    cameras = fleet.make_cameras(args)
    assert [camera.name for camera in cameras] == ["train_1", "train_2"]
    assert [Path(camera.folder) for camera in cameras] == [tmp_path / c.name for c in cameras]
    assert [camera.order.source for camera in cameras] == [str(fog), str(night)]
    assert {camera.merge_every for camera in cameras} == {7}


def test_mistakes_end_in_one_line(minicity, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reservoir").mkdir()
    fog = str(minicity / "rgb_anon/fog")
    (tmp_path / "reservoir/0.png").write_bytes(b"")
    for words, message in (
        (["nowhere", MODEL], "there is no nowhere"),
        (["reservoir", MODEL], "a stream cannot be called reservoir"),
        (
            [fog, MODEL, "--merge-every=0"],
            "merge_every must be a whole",
        ),
        ([fog, MODEL, "--jobs=0"], "--jobs must be 1 or more cores"),
        ([fog, MODEL, "--jobs=2", "--ray=auto"], "without --ray"),
    ):
        assert fleet.main(words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
