"""Cityscapes' train ids, as far as MiniCity draws them."""

from enum import IntEnum


class Label(IntEnum):
    """Cityscapes' train ids; MiniCity draws no trains (16) and no motorcycles (17)."""

    ROAD = 0
    SIDEWALK = 1
    BUILDING = 2
    WALL = 3
    FENCE = 4
    POLE = 5
    TRAFFIC_LIGHT = 6
    TRAFFIC_SIGN = 7
    VEGETATION = 8
    TERRAIN = 9
    SKY = 10
    PERSON = 11
    RIDER = 12
    CAR = 13
    TRUCK = 14
    BUS = 15
    BICYCLE = 18
