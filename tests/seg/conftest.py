"""With mmcv-lite, mmseg can be imported only after this package."""

import pytest
from mmengine.registry import init_default_scope

import mmseg_reservoir.seg  # noqa: F401


@pytest.fixture(autouse=True)
def _mmseg_scope():
    """Names in configs and pipelines are mmseg's, as in a run."""
    init_default_scope("mmseg")
