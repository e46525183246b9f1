"""mmseg can be imported, with mmcv-lite, only after this package."""

import mmseg_reservoir.seg  # noqa: F401
