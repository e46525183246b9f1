"""A web page that shows a stream during adaptation. It needs the extra ``live``."""

from __future__ import annotations

from .._renamed import renamed_names
from .worker import LiveFrame, LiveStream, StreamInfo, StreamWorker

__all__ = ["LiveFrame", "LiveStream", "StreamInfo", "StreamWorker"]

__getattr__ = renamed_names(__name__, {"Station": "live.StreamWorker"})
