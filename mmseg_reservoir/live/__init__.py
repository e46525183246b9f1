"""A page to watch a stream while it adapts. Needs the extra ``live``."""

from __future__ import annotations

from .station import LiveFrame, LiveStream, Station, StreamInfo

__all__ = ["LiveFrame", "LiveStream", "Station", "StreamInfo"]
