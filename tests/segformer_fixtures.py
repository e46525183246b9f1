"""Fixtures for tests that change a tiny SegFormer."""

import copy

import pytest
import torch
from mmengine.registry import init_default_scope

import mmseg_reservoir.seg  # noqa: F401 (with mmcv-lite, mmseg can be imported only after it)


@pytest.fixture(autouse=True)
def mmseg_scope():
    """Names in configs and pipelines are mmseg's, as in a run."""
    init_default_scope("mmseg")


@pytest.fixture
def model(tiny_model):
    """A tiny SegFormer that a test may change."""
    return copy.deepcopy(tiny_model)


@pytest.fixture
def images():
    return torch.randn(3, 3, 32, 64, generator=torch.Generator().manual_seed(0))
