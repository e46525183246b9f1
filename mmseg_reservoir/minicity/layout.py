"""Draw the plan of one street: its sides and objects."""

import numpy as np

from .camera import Camera
from .canvas import Label
from .figures import Bicycle, Walker
from .fleet import bus, car, truck
from .furniture import Post, Tree
from .street import Barrier, House, Side, StreetPlan, Thing
from .surfaces import Facade
from .vehicles import Vehicle

THINNEST_POST = 3.0  # output pixels; thinner ones cannot be learned
SMALLEST_FIGURE = 18.0  # output pixels of height


def draw_plan(rng: np.random.Generator, camera: Camera, scale: float) -> StreetPlan:
    """Draw the plan of a random street, without objects that would be too small.

    `scale` is how many pixels of the camera make one pixel of the final image.
    """
    focal = camera.focal / scale
    end = rng.uniform(70, 170)
    sides, things = [], []
    for sign in (-1, 1):
        side = _side(rng, sign, end)
        sides.append(side)
        things += _curbside(rng, side, focal)
        things += _trees(rng, side)
        things += _people(rng, side, focal)
        things += _parked(rng, side)
    things += _traffic(rng)
    return StreetPlan(tuple(sides), things, end)


def _side(rng: np.random.Generator, sign: int, end: float) -> Side:
    """Draw a road, a sidewalk, perhaps grass beside it, and perhaps a barrier and houses."""
    curb = rng.uniform(3.6, 4.6) + (2.0 if rng.random() < 0.5 else 0.0)  # with a parking lane
    bands, edge = [], curb
    if rng.random() < 0.35:
        edge += rng.uniform(1.2, 2.2)
        bands.append((edge, Label.TERRAIN))
    edge += rng.uniform(2.0, 4.2)
    bands.append((edge, Label.SIDEWALK))
    if rng.random() < 0.55:
        edge += rng.uniform(1.5, 4.0)
        bands.append((edge, Label.TERRAIN))
    bands.append((np.inf, Label.TERRAIN if rng.random() < 0.7 else Label.SIDEWALK))
    barrier = _barrier(rng, sign * (edge + 0.1))
    house_line = edge + rng.uniform(0.3, 1.0) + (rng.uniform(1, 5) if barrier else 0.0)
    houses = _houses(rng, end) if rng.random() < 0.85 else []
    return Side(sign, curb, tuple(bands), barrier, house_line, houses)


def _barrier(rng: np.random.Generator, across: float) -> Barrier | None:
    """Draw a fence, a wall, a hedge or nothing behind the sidewalk."""
    kinds = (None, Label.FENCE, Label.WALL, Label.VEGETATION)
    label = kinds[rng.choice(4, p=[0.26, 0.34, 0.25, 0.15])]
    if label is None:
        return None
    low, high = {Label.FENCE: (1.3, 2.1), Label.WALL: (1.5, 2.7)}.get(label, (1.0, 2.2))
    near = rng.uniform(0.0, 12.0)
    far = near + rng.uniform(10, 40)
    return Barrier(label, across, near, far, rng.uniform(low, high))


def _houses(rng: np.random.Generator, end: float) -> list[House]:
    """Draw a row of houses with side streets in between."""
    houses, near = [], rng.uniform(-10, 4)
    usual = rng.uniform(7, 15)
    while near < end - 4:
        far = min(near + rng.uniform(8, 22), end)
        houses.append(House(near, far, Facade.sample(rng, usual * rng.uniform(0.75, 1.35))))
        near = far + (rng.uniform(4, 12) if rng.random() < 0.25 else 0.0)
    return houses


def _curbside(rng: np.random.Generator, side: Side, focal: float) -> list[Post]:
    """Draw lamp posts, signs and traffic lights beside the road."""
    posts, ahead = [], rng.uniform(6, 12)
    across = side.sign * (side.curb + rng.uniform(0.5, 0.9))
    while True:
        kind = ("lamp", "sign", "light")[rng.choice(3, p=[0.36, 0.34, 0.30])]
        post = Post.sample(rng, across, ahead, kind)
        if post.width * focal / ahead < THINNEST_POST:
            return posts
        posts.append(post)
        ahead += rng.uniform(4, 10)


def _trees(rng: np.random.Generator, side: Side) -> list[Tree]:
    """Draw trees in the grass or the sidewalk, or a park if there are no houses."""
    trees = []
    if not side.houses:
        for _ in range(rng.integers(8, 14)):
            across = side.sign * (side.edge + rng.uniform(2, 14))
            trees.append(Tree.sample(rng, across, rng.uniform(9, 70)))
    if rng.random() < 0.6:
        across = side.middle(Label.TERRAIN)
        if across is None or abs(across) >= side.house_line:
            across = side.sign * (side.house_line - 1.0)
        ahead = rng.uniform(8, 20)
        for _ in range(rng.integers(1, 6)):
            trees.append(Tree.sample(rng, across + rng.uniform(-0.4, 0.4), ahead))
            ahead += rng.uniform(6, 14)
    return trees


def _people(rng: np.random.Generator, side: Side, focal: float) -> list[Thing]:
    """Draw people on the sidewalk, and parked bicycles."""
    farthest = 1.9 * focal / SMALLEST_FIGURE
    middle = side.middle(Label.SIDEWALK)
    people = []
    for _ in range(rng.poisson(2.0)):
        across = middle + rng.uniform(-1.0, 1.0)
        people.append(Walker.sample(rng, across, rng.uniform(6.0, farthest)))
    if rng.random() < 0.30:
        across = middle + rng.uniform(-0.8, 0.8)
        people.append(Bicycle.sample(rng, across, rng.uniform(7.5, 15), ridden=False))
    return people


def _parked(rng: np.random.Generator, side: Side) -> list[Vehicle]:
    """Draw a row of parked vehicles along the curb."""
    if side.curb < 5.5 or rng.random() < 0.2:
        return []
    parked, ahead = [], rng.uniform(4.5, 14)
    while ahead < 55:
        make = (car, truck, bus)[rng.choice(3, p=[0.88, 0.09, 0.03])]
        across = side.sign * (side.curb - (1.05 if make is car else 1.35))
        yaw = (0.0 if side.sign > 0 else np.pi) + rng.uniform(-0.03, 0.03)
        vehicle = make(rng, across, ahead, yaw)
        parked.append(vehicle)
        ahead += vehicle.length + rng.uniform(0.8, 2.0) + (rng.random() < 0.3) * rng.uniform(4, 12)
    return parked


def _traffic(rng: np.random.Generator) -> list[Thing]:
    """Draw vehicles and cyclists on the two lanes, and people that cross."""
    traffic = []
    for across, yaw, first in ((1.8, 0.0, (9, 30)), (-1.8, np.pi, (7, 30))):
        ahead = rng.uniform(*first)
        while ahead < 70:
            make = (car, truck, bus)[rng.choice(3, p=[0.60, 0.20, 0.20])]
            sway = rng.uniform(-0.3, 0.3)
            vehicle = make(rng, across + sway, ahead, yaw + rng.uniform(-0.04, 0.04))
            traffic.append(vehicle)
            ahead += vehicle.length + rng.uniform(8, 40)
    nearest = min(vehicle.nearest for vehicle in traffic)
    for _ in range(rng.poisson(1.0)):
        across = rng.choice([-1, 1]) * rng.uniform(2.6, 3.6)
        traffic.append(Bicycle.sample(rng, across, rng.uniform(6.0, 13), ridden=True))
    if rng.random() < 0.12 and nearest > 9:
        traffic.append(Walker.sample(rng, rng.uniform(-3, 3), rng.uniform(7, nearest - 1)))
    return traffic
