"""MiniCity: small street scenes in clear air, fog, night, rain and snow, rendered by code.

Scenes have Cityscapes' labels and a metric depth map, need no download, and are written in ACDC's
folder layout.
"""

from .canvas import Label
from .frame import CONDITIONS, SPLITS, Frame, render_frame
from .writer import Written, frame_paths, make_counts, write_dataset

__all__ = [
    "CONDITIONS",
    "SPLITS",
    "Frame",
    "Label",
    "Written",
    "frame_paths",
    "make_counts",
    "render_frame",
    "write_dataset",
]
