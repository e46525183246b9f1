"""MiniCity's weather: each condition does to the light what it does outdoors."""

from dataclasses import replace

import numpy as np
import pytest

from mmseg_reservoir.minicity import CONDITIONS, Label, render_frame
from mmseg_reservoir.minicity.frame import WEATHER
from mmseg_reservoir.minicity.scene import render_scene
from mmseg_reservoir.minicity.weather import fog

ADVERSE = [condition for condition in CONDITIONS if condition != "clear"]


@pytest.fixture(scope="module")
def scenes():
    return [render_scene(np.random.default_rng([1, index]), overcast=True) for index in range(5)]


@pytest.fixture(scope="module")
def scene(scenes):
    return scenes[0]


def mean_light(scenes, condition):
    return np.mean([WEATHER[condition](scene, np.random.default_rng(3)).mean() for scene in scenes])


@pytest.mark.parametrize("condition", CONDITIONS)
def test_weather_is_deterministic_and_leaves_the_scene_alone(scene, condition):
    before = [array.copy() for array in (scene.radiance, scene.label, scene.depth, scene.glow)]
    first, second = (WEATHER[condition](scene, np.random.default_rng(2)) for _ in range(2))
    assert np.array_equal(first, second)
    assert first.shape == scene.radiance.shape
    assert np.isfinite(first).all()
    assert first.min() >= 0
    for old, new in zip(
        before, (scene.radiance, scene.label, scene.depth, scene.glow), strict=True
    ):
        assert np.array_equal(old, new)


@pytest.mark.parametrize("condition", ADVERSE)
def test_weather_changes_the_picture_clearly(scene, condition):
    light = WEATHER[condition](scene, np.random.default_rng(2))
    assert np.abs(light - scene.radiance).mean() > 0.03


@pytest.mark.parametrize("condition", ADVERSE)
def test_intensity_differs_from_picture_to_picture(scene, condition):
    solid = scene.label != Label.SKY
    change = [
        np.abs(WEATHER[condition](scene, np.random.default_rng(seed)) - scene.radiance)[
            solid
        ].mean()
        for seed in range(12)
    ]
    assert max(change) > 1.2 * min(change)


def test_fog_takes_contrast_away_with_depth(scenes):
    for number, scene in enumerate(scenes):
        foggy = fog(scene, np.random.default_rng(number))
        airlight = foggy[scene.label == Label.SKY].mean(axis=0)
        solid = scene.label != Label.SKY
        far_from_air = np.linalg.norm(foggy - airlight, axis=2)
        clear_distance = np.linalg.norm(scene.radiance - airlight, axis=2)
        usable = solid & (clear_distance > 0.15)
        kept = far_from_air[usable] / clear_distance[usable]
        depth = scene.depth[usable]
        assert np.corrcoef(np.log(kept + 1e-3), depth)[0, 1] < -0.6
        assert kept[depth > 60].mean() < 0.5 * kept[depth < 10].mean()


def test_fog_follows_koschmieder_on_the_road(scenes):
    scene = scenes[1]
    foggy = fog(scene, np.random.default_rng(4))
    airlight = foggy[scene.label == Label.SKY].mean(axis=0)
    road = scene.label == Label.ROAD
    kept = np.linalg.norm(foggy - airlight, axis=2) / np.linalg.norm(
        scene.radiance - airlight, axis=2
    )
    bins = [road & (scene.depth > low) & (scene.depth < low + 2) for low in (5, 9, 13, 17)]
    slopes = [np.median(np.log(kept[b])) / np.median(scene.depth[b]) for b in bins if b.any()]
    beta = -np.array(slopes)
    assert np.all(beta > 3.0 / 120 / 1.6)
    assert np.all(beta < 3.0 / 25 * 1.6)
    assert beta.max() / beta.min() < 1.6


def test_night_is_much_darker_and_its_sky_is_dark(scenes):
    assert mean_light(scenes, "night") < 0.6 * mean_light(scenes, "clear")
    for number, scene in enumerate(scenes):
        sky = scene.label == Label.SKY
        dark = WEATHER["night"](scene, np.random.default_rng(number))
        assert np.median(dark[sky]) < 0.2 * np.median(scene.radiance[sky])


def test_night_lamps_shine(scenes):
    scene = scenes[0]
    dark = WEATHER["night"](scene, np.random.default_rng(0))
    shining = scene.glow > 0.5
    assert dark[shining].mean() > 3 * dark[~shining].mean()


def test_rain_turns_the_road_into_a_mirror(scenes):
    scene = scenes[0]
    rows = np.arange(len(scene.label))[:, None]
    left = np.arange(scene.label.shape[1])[None] < 128
    walls = np.where((rows < 64)[..., None], np.where(left, 0.9, 0.02)[..., None], 0.1)
    label = np.where(rows < 64, Label.BUILDING, Label.ROAD) + np.zeros_like(scene.label)
    depth = np.where(rows < 64, 15, 15 - 0.1 * (rows - 64)) + np.zeros_like(scene.depth)
    street = replace(
        scene,
        radiance=np.broadcast_to(walls, scene.radiance.shape).astype(np.float32),
        label=label,
        depth=depth.astype(np.float32),
    )
    for seed in range(4):
        wet = WEATHER["rain"](street, np.random.default_rng(seed))
        assert np.median(wet[70:90, :110]) > 1.15 * np.median(wet[70:90, 146:])


def test_rain_takes_color_away(scenes):
    for number, scene in enumerate(scenes):
        wet = WEATHER["rain"](scene, np.random.default_rng(number))
        assert np.ptp(wet, axis=2).mean() < 0.8 * np.ptp(scene.radiance, axis=2).mean()


def test_snow_covers_the_grass(scenes):
    for number, scene in enumerate(scenes):
        verge = (scene.label == Label.TERRAIN) & (scene.depth < 30)
        if verge.sum() > 50:
            white = WEATHER["snow"](scene, np.random.default_rng(number))
            assert white[verge].mean() > 1.5 * scene.radiance[verge].mean()


def test_sensor_noise_is_higher_by_night():
    def noise(condition):
        frames = [render_frame(condition, "val", index) for index in range(6)]
        skies = [frame.rgb[:30].astype(float)[frame.label[:30] == Label.SKY] for frame in frames]
        return np.median([np.diff(sky, axis=0).std() for sky in skies if len(sky) > 100])

    assert noise("night") > 1.5 * noise("fog")
