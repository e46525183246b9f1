"""Render one street scene in clear air: color, labels, depth and light sources."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import cv2
import numpy as np

from .camera import Camera
from .canvas import Canvas, Label, Light
from .furniture import Post
from .ground import paint_ground
from .layout import draw_plan
from .planes import plane_along, plane_facing
from .street import Barrier, Side, StreetPlan
from .surfaces import Facade, Foliage, Masonry, Pickets
from .textures import look_up, noise_tile

ROWS, COLUMNS = 128, 256
OVERSAMPLING = 2  # scenes are painted larger and averaged down, for smooth edges
SKY_DEPTH = 10_000.0  # meters
DISPLAY_GAMMA = 2.2


@dataclass(frozen=True)
class Scene:
    """A rendered scene, in arrays of ROWS x COLUMNS."""

    radiance: np.ndarray  # float32, RGB: linear light, 1 is white
    label: np.ndarray  # uint8: train ids
    depth: np.ndarray  # float32: meters, SKY_DEPTH in the sky
    glow: np.ndarray  # float32: how much light each pixel would send out by night
    camera: Camera
    lamps: np.ndarray  # street coordinates (N, 3) of the street lamps


def render_scene(rng: np.random.Generator, overcast: bool = False) -> Scene:
    """Render a random street in clear air, before the camera's exposure.

    Under an overcast sky clouds hide the sun, as they do in fog, rain and snow.
    """
    camera = Camera.sample(rng, ROWS * OVERSAMPLING, COLUMNS * OVERSAMPLING)
    plan = draw_plan(rng, camera, OVERSAMPLING)
    canvas = Canvas(camera, _sample_light(rng, overcast))
    _paint_sky(canvas, rng)
    _paint_end(canvas, plan, rng)
    paint_ground(canvas, plan, rng)
    for side in plan.sides:
        _paint_houses(canvas, side)
    for side in plan.sides:
        if side.barrier:
            _paint_barrier(canvas, side.barrier, rng)
    for thing in sorted(plan.things, key=lambda thing: -thing.nearest):
        thing.draw(canvas)
    posts = [thing for thing in plan.things if isinstance(thing, Post)]
    lamps = [post.lamp for post in posts if post.kind == "lamp"]
    return _finish(canvas, np.array(lamps, np.float32).reshape(-1, 3))


def _sample_light(rng: np.random.Generator, overcast: bool) -> Light:
    """Draw the position of the sun and the share of its light that comes through."""
    azimuth, elevation = rng.uniform(0, 2 * math.pi), math.radians(rng.uniform(22, 60))
    strength = rng.uniform(0.5, 1.0) if rng.random() < 0.75 else 0.0
    flat = math.cos(elevation)
    sun = (flat * math.sin(azimuth), math.sin(elevation), flat * math.cos(azimuth))
    return Light(sun, 0.0 if overcast else strength)


def _paint_sky(canvas: Canvas, rng: np.random.Generator) -> None:
    """Paint a gradient from haze to zenith, clouds, and brightness towards the sun."""
    light, camera = canvas.light, canvas.camera.resized(1 / OVERSAMPLING)  # the sky has no edges
    rows = min(math.ceil(camera.horizon) + 1, camera.rows)
    height = (camera.horizon - np.arange(rows) - 0.5) / camera.focal
    height = np.maximum(height, 0.02).astype(np.float32)[:, None]
    sideways = (np.arange(camera.columns) + 0.5 - camera.columns / 2) / camera.focal
    sideways = sideways.astype(np.float32)[None]
    blue = np.array([0.36, 0.56, 0.84]) * rng.uniform(0.85, 1.1)
    gray = np.array([0.74, 0.76, 0.79]) * rng.uniform(0.85, 1.1)
    haze = np.array([0.84, 0.87, 0.90])
    zenith = gray + (blue - gray) * np.clip(light.strength * 1.3, 0, 1)
    rise = np.clip(height * rng.uniform(1.6, 2.6), 0, 1)
    clouds = look_up(
        noise_tile(1.8),
        sideways / (height + 0.1) * 22 + rng.uniform(0, 256),
        6 / (height + 0.1) + rng.uniform(0, 256),
    )
    cover = np.clip((clouds - rng.uniform(-0.6, 1.2)) * 0.9, 0, 1) * 0.85
    cloud = 0.93 - 0.10 * np.clip(clouds, 0, 2)
    glare = np.zeros_like(clouds)
    if light.sun[2] > 0:  # the sun is in front of the camera
        x, y = light.sun[0] / light.sun[2], light.sun[1] / light.sun[2]
        glare = np.exp(-2.5 * ((sideways - x) ** 2 + (height - y) ** 2)) * 0.35 * light.strength
    air = haze.astype(np.float32) + (zenith - haze).astype(np.float32) * rise[..., None]
    sky = air * (1 - cover)[..., None] + (cloud * cover + glare)[..., None]
    rows, columns = rows * OVERSAMPLING, canvas.camera.columns
    canvas.paint[:rows, :, :3] = cv2.resize(sky, (columns, rows))
    canvas.meaning[...] = (float(Label.SKY), SKY_DEPTH)


def _paint_end(canvas: Canvas, plan: StreetPlan, rng: np.random.Generator) -> None:
    """Close the view with trees, with houses across the street, or with both."""
    camera, light = canvas.camera, canvas.light.on(0, 0, -1)
    center, reach = -camera.drift(plan.end), 0.6 * plan.end * camera.columns / camera.focal
    wood = Foliage.sample(rng, 2 * reach, rng.uniform(6, 11), 0.95 * light)
    plane_facing(canvas, center - reach, 2 * reach, plan.end + 15, wood)
    across = center - reach
    while across < center + reach:
        width = rng.uniform(12, 30)
        if rng.random() < 0.5:
            facade = Facade.sample(rng, rng.uniform(7, 17), light)
            plane_facing(canvas, across, width, plan.end + 8, facade)
        across += width


def _paint_houses(canvas: Canvas, side: Side) -> None:
    """Paint the houses of a side from far to near: the end towards the camera, then the front."""
    gable_light, front_light = canvas.light.on(0, 0, -1), canvas.light.on(-side.sign, 0, 0)
    for house, before in pairwise([*reversed(side.houses), None]):
        facade = house.facade
        hidden = before and before.far == house.near and before.facade.height >= facade.height
        if house.near > 2 and not hidden:
            left = side.house_line if side.sign > 0 else -side.house_line - 14
            plane_facing(canvas, left, 14, house.near, replace(facade, brightness=gable_light))
        front = replace(facade, brightness=front_light)
        plane_along(canvas, side.sign * side.house_line, house.near, house.far, front)


def _paint_barrier(canvas: Canvas, barrier: Barrier, rng: np.random.Generator) -> None:
    """Paint a fence, a wall or a hedge."""
    light = canvas.light.on(-math.copysign(1, barrier.across), 0, 0)
    if barrier.label is Label.FENCE:
        surface = Pickets.sample(rng, barrier.height, light)
    elif barrier.label is Label.WALL:
        surface = Masonry.sample(rng, barrier.height, light)
    else:
        surface = Foliage.sample(rng, barrier.far - barrier.near, barrier.height, light)
    plane_along(canvas, barrier.across, barrier.near, barrier.far, surface)


def _finish(canvas: Canvas, lamps: np.ndarray) -> Scene:
    """Average the colors down to the final size and linearize them."""
    paint = cv2.resize(canvas.paint, (COLUMNS, ROWS), interpolation=cv2.INTER_AREA)
    meaning = canvas.meaning[::OVERSAMPLING, ::OVERSAMPLING]
    return Scene(
        radiance=np.clip(paint[..., :3], 0, 1.2) ** DISPLAY_GAMMA,
        label=meaning[..., 0].astype(np.uint8),
        depth=meaning[..., 1].copy(),
        glow=paint[..., 3].copy(),
        camera=canvas.camera.resized(1 / OVERSAMPLING),
        lamps=lamps,
    )
