"""Renders one street scene in clear air: colour, labels, depth and light sources."""

import math
from dataclasses import dataclass

import cv2
import numpy as np

from mmseg_reservoir.minicity.camera import Camera
from mmseg_reservoir.minicity.canvas import Canvas, Light
from mmseg_reservoir.minicity.furniture import Post
from mmseg_reservoir.minicity.ground import Roofs, paint_ground
from mmseg_reservoir.minicity.labels import Label
from mmseg_reservoir.minicity.layout import Barrier, StreetPlan, draw_plan
from mmseg_reservoir.minicity.planes import plane_along, plane_facing
from mmseg_reservoir.minicity.surfaces import Facade, Foliage, Masonry, Pickets
from mmseg_reservoir.minicity.textures import look_up, noise_tile

ROWS, COLUMNS = 128, 256
OVERSAMPLING = 2  # scenes are painted larger and averaged down, for smooth edges
SKY_DEPTH = 10_000.0  # metres
DISPLAY_GAMMA = 2.2


@dataclass(frozen=True)
class Scene:
    """A rendered scene.

    Attributes:
        radiance: float32 (ROWS, COLUMNS, 3) linear light, 1 is white.
        label: uint8 (ROWS, COLUMNS) train ids.
        depth: float32 (ROWS, COLUMNS) metres, SKY_DEPTH in the sky.
        glow: float32 (ROWS, COLUMNS) how much light each pixel would send out by night.
        camera: The camera that saw it.
        lamps: Street coordinates (N, 3) of the street lamps.
    """

    radiance: np.ndarray
    label: np.ndarray
    depth: np.ndarray
    glow: np.ndarray
    camera: Camera
    lamps: np.ndarray


def render_scene(rng: np.random.Generator, overcast: bool = False) -> Scene:
    """Renders a random street.

    Args:
        rng: Source of all choices.
        overcast: Whether clouds hide the sun, as they do in fog, rain and snow.

    Returns:
        The scene in clear air, before the camera's exposure.
    """
    camera = Camera.sample(rng, ROWS * OVERSAMPLING, COLUMNS * OVERSAMPLING)
    plan = draw_plan(rng, camera, OVERSAMPLING)
    canvas = Canvas(camera, _sample_light(rng, overcast))
    _paint_sky(canvas, rng)
    _paint_end(canvas, plan, rng)
    footprints = [thing.footprint() for thing in plan.things]
    paint_ground(canvas, plan.sides, footprints, _roofs(plan), rng)
    _paint_houses(canvas, plan)
    for barrier in plan.barriers:
        _paint_barrier(canvas, barrier, rng)
    for thing in sorted(plan.things, key=lambda thing: -thing.nearest):
        thing.draw(canvas)
    lamps = [
        thing.lamp for thing in plan.things if isinstance(thing, Post) and thing.kind == "lamp"
    ]
    return _finish(canvas, np.array(lamps, np.float32).reshape(-1, 3))


def _sample_light(rng: np.random.Generator, overcast: bool) -> Light:
    """Draws the place of the sun and how much of it comes through."""
    azimuth, elevation = rng.uniform(0, 2 * math.pi), math.radians(rng.uniform(22, 60))
    strength = rng.uniform(0.5, 1.0) if rng.random() < 0.75 else 0.0
    flat = math.cos(elevation)
    sun = (flat * math.sin(azimuth), math.sin(elevation), flat * math.cos(azimuth))
    return Light(sun, 0.0 if overcast else strength)


def _paint_sky(canvas: Canvas, rng: np.random.Generator) -> None:
    """A gradient from haze to zenith, clouds in perspective, and brightness towards the sun."""
    light, camera = canvas.light, canvas.camera.resized(1 / OVERSAMPLING)  # the sky has no edges
    rows = min(math.ceil(camera.horizon) + 1, camera.rows)
    height = (camera.horizon - np.arange(rows) - 0.5) / camera.focal
    height = np.maximum(height, 0.02).astype(np.float32)[:, None]
    sideways = (np.arange(camera.columns) + 0.5 - camera.columns / 2) / camera.focal
    sideways = sideways.astype(np.float32)[None]
    blue = np.array([0.36, 0.56, 0.84]) * rng.uniform(0.85, 1.1)
    grey = np.array([0.74, 0.76, 0.79]) * rng.uniform(0.85, 1.1)
    haze = np.array([0.84, 0.87, 0.90])
    zenith = grey + (blue - grey) * np.clip(light.strength * 1.3, 0, 1)
    rise = np.clip(height * rng.uniform(1.6, 2.6), 0, 1)
    clouds = look_up(
        noise_tile(1.8),
        sideways / (height + 0.1) * 22 + rng.uniform(0, 256),
        6 / (height + 0.1) + rng.uniform(0, 256),
    )
    cover = np.clip((clouds - rng.uniform(-0.6, 1.2)) * 0.9, 0, 1) * 0.85
    cloud = 0.93 - 0.10 * np.clip(clouds, 0, 2)
    glare = np.zeros_like(clouds)
    if light.sun[2] > 0:  # the sun is somewhere before the camera
        x, y = light.sun[0] / light.sun[2], light.sun[1] / light.sun[2]
        glare = np.exp(-2.5 * ((sideways - x) ** 2 + (height - y) ** 2)) * 0.35 * light.strength
    air = haze.astype(np.float32) + (zenith - haze).astype(np.float32) * rise[..., None]
    sky = air * (1 - cover)[..., None] + (cloud * cover + glare)[..., None]
    rows, columns = rows * OVERSAMPLING, canvas.camera.columns
    canvas.paint[:rows, :, :3] = cv2.resize(sky, (columns, rows))
    canvas.meaning[...] = (float(Label.SKY), SKY_DEPTH)


def _paint_end(canvas: Canvas, plan: StreetPlan, rng: np.random.Generator) -> None:
    """Closes the view with trees and, in front of them or instead, houses across the street."""
    camera, light = canvas.camera, canvas.light.on(0, 0, -1)
    centre, reach = -camera.drift(plan.end), 0.6 * plan.end * camera.columns / camera.focal
    wood = Foliage.sample(rng, 2 * reach, rng.uniform(6, 11), False, 0.95 * light, 0.0)
    plane_facing(
        canvas, centre - reach, 2 * reach, plan.end + 15, wood.height, wood, Label.VEGETATION
    )
    across = centre - reach
    while across < centre + reach:
        width = rng.uniform(12, 30)
        if rng.random() < 0.5:
            facade = Facade.sample(rng, rng.uniform(7, 17), light)
            plane_facing(canvas, across, width, plan.end + 8, facade.height, facade, Label.BUILDING)
        across += width


def _paint_houses(canvas: Canvas, plan: StreetPlan) -> None:
    """Paints each side's houses from far to near: the end that faces us, then the front."""
    for side, line, houses in zip(plan.sides, plan.house_line, plan.houses, strict=True):
        light = canvas.light.on(-side.sign, 0, 0)
        for number in reversed(range(len(houses))):
            house, facade = houses[number], houses[number].facade
            before = houses[number - 1] if number else None
            hidden = before and before.far == house.near and before.facade.height >= facade.height
            if house.near > 2 and not hidden:
                gable = facade.lit(canvas.light.on(0, 0, -1))
                left = line if side.sign > 0 else -line - 14
                plane_facing(canvas, left, 14, house.near, facade.height, gable, Label.BUILDING)
            across, front = side.sign * line, facade.lit(light)
            plane_along(canvas, across, house.near, house.far, facade.height, front, Label.BUILDING)


def _paint_barrier(canvas: Canvas, barrier: Barrier, rng: np.random.Generator) -> None:
    """Paints a fence, a wall or a hedge."""
    light = canvas.light.on(-math.copysign(1, barrier.across), 0, 0)
    length = barrier.far - barrier.near
    if barrier.label is Label.FENCE:
        surface = Pickets.sample(rng, barrier.height, light)
    elif barrier.label is Label.WALL:
        surface = Masonry.sample(rng, light)
    else:
        surface = Foliage.sample(rng, length, barrier.height, False, light, 0.0)
    across, near, far = barrier.across, barrier.near, barrier.far
    plane_along(canvas, across, near, far, barrier.height, surface, barrier.label)


def _roofs(plan: StreetPlan) -> list[Roofs]:
    """The skyline of each side, which casts shadows."""
    roofs = []
    for side, line, houses in zip(plan.sides, plan.house_line, plan.houses, strict=True):
        edges = [edge for house in houses for edge in (house.near, house.far)]
        heights = [0.0] + [height for house in houses for height in (house.facade.height, 0.0)]
        roofs.append(Roofs(side.sign, line, np.float32(edges), np.float32(heights)))
    return roofs


def _finish(canvas: Canvas, lamps: np.ndarray) -> Scene:
    """Averages the colours down to the final size and linearises them."""
    size = (COLUMNS, ROWS)
    paint = cv2.resize(canvas.paint, size, interpolation=cv2.INTER_AREA)
    meaning = canvas.meaning[::OVERSAMPLING, ::OVERSAMPLING]
    return Scene(
        radiance=np.clip(paint[..., :3], 0, 1.2) ** DISPLAY_GAMMA,
        label=meaning[..., 0].astype(np.uint8),
        depth=meaning[..., 1].copy(),
        glow=paint[..., 3].copy(),
        camera=canvas.camera.resized(1 / OVERSAMPLING),
        lamps=lamps,
    )
