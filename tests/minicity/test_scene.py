"""MiniCity's scenes: deterministic, rich in classes, true in perspective."""

import numpy as np
import pytest

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.minicity import Label, render_frame
from mmseg_reservoir.minicity.camera import Camera
from mmseg_reservoir.minicity.scene import COLUMNS, ROWS, SKY_DEPTH, render_scene


@pytest.fixture(scope="module")
def frames():
    return [render_frame("clear", "train", index) for index in range(30)]


def straight_camera(**changes):
    settings = dict(rows=128, columns=256, focal=180.0, horizon=56.0, eye=1.5)
    settings |= dict(offset=1.8, heading=0.0, bend=0.0)
    return Camera(**(settings | changes))


def test_same_arguments_give_same_bytes():
    first, second = (render_frame("clear", "val", 3, seed=7) for _ in range(2))
    assert first.rgb.tobytes() == second.rgb.tobytes()
    assert first.label.tobytes() == second.label.tobytes()
    assert first.depth.tobytes() == second.depth.tobytes()


@pytest.mark.parametrize(
    "other", [("clear", "val", 4, 7), ("clear", "train", 3, 7), ("clear", "val", 3, 8)]
)
def test_any_other_argument_gives_another_scene(other):
    first, second = render_frame("clear", "val", 3, seed=7), render_frame(*other)
    assert (first.label != second.label).mean() > 0.05


def test_shapes_and_types(frames):
    frame = frames[0]
    assert frame.rgb.shape == (ROWS, COLUMNS, 3)
    assert frame.rgb.dtype == np.uint8
    assert frame.label.shape == (ROWS, COLUMNS)
    assert frame.label.dtype == np.uint8
    assert frame.depth.shape == (ROWS, COLUMNS)
    assert frame.depth.dtype == np.float32


def test_classes_are_frequent_enough_to_be_learnt(frames):
    labels = np.stack([frame.label for frame in frames])
    share = np.bincount(labels.ravel(), minlength=19) / labels.size
    assert set(np.flatnonzero(share)) == set(Label)
    assert min(share[label] for label in Label) > 0.001
    assert 0.2 < share[Label.ROAD] < 0.5
    assert share[Label.BUILDING] > 0.1
    assert share[Label.SKY] > 0.05


def test_sky_is_farthest_and_everything_else_is_near(frames):
    for frame in frames:
        sky = frame.label == Label.SKY
        assert np.all(frame.depth[sky] == SKY_DEPTH)
        assert frame.depth[~sky].max() < 500
        assert frame.depth.min() > 0.5


def test_depth_of_the_road_follows_the_pinhole_model():
    scene = render_scene(np.random.default_rng(5))
    rows, columns = np.nonzero(scene.label == Label.ROAD)
    camera = scene.camera
    # the label is taken from the upper left of the 2 x 2 pixels that make up one
    expected = camera.focal * camera.eye / (rows + 0.25 - camera.horizon)
    depth = scene.depth[rows, columns]
    near = expected < 60
    np.testing.assert_allclose(depth[near], expected[near], rtol=1e-4)


def test_depth_of_the_road_grows_towards_the_horizon(frames):
    for frame in frames:
        road = frame.label == Label.ROAD
        mean = [frame.depth[row][road[row]].mean() for row in range(ROWS) if road[row].any()]
        assert np.all(np.diff(mean) < 0)


def test_projection_and_ground_are_inverse():
    camera = straight_camera(heading=0.04, bend=1 / 500)
    first, across, ahead = camera.ground()
    row, column = 40, 100
    point = [[across[row, column], 0.0, ahead[row, column]]]
    np.testing.assert_allclose(
        camera.project(point)[0], [column + 0.5, first + row + 0.5], atol=1e-2
    )


@pytest.mark.parametrize("bend", [0.0, 1 / 450])
@pytest.mark.parametrize("across", [-8.0, 8.0])
def test_wall_depth_is_where_each_column_meets_the_wall(across, bend):
    camera = straight_camera(bend=bend)
    depth = camera.wall_depth(across)
    seen = np.flatnonzero((depth > 2) & (depth < 60))
    assert len(seen) > 20
    np.testing.assert_allclose(camera.column_of(across, depth[seen]), seen + 0.5, atol=0.3)


def test_exposure_varies_as_in_real_footage(frames):
    brightness = np.log([frame.rgb.mean() for frame in frames])
    assert brightness.std() > 0.10
    warmth = np.log([frame.rgb[..., 0].mean() / frame.rgb[..., 2].mean() for frame in frames])
    assert warmth.std() > 0.04
    contrast = np.log([frame.rgb.std() for frame in frames])
    assert contrast.std() > 0.08


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hail", "val", 0), "unknown condition 'hail': use one of clear, fog"),
        (("fog", "test", 0), "unknown split 'test': use one of train, val"),
        (("fog", "val", -1), "must be 0 or more, got -1"),
    ],
)
def test_invalid_arguments_are_explained(arguments, message):
    with pytest.raises(ReservoirError, match=message):
        render_frame(*arguments)
