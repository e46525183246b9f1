"""Fixtures that several tests share."""

from __future__ import annotations

import gc
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import HealthCheck, settings

from mmseg_reservoir.minicity import make_counts, write_dataset

if TYPE_CHECKING:
    from mmseg.models import EncoderDecoder
    from stream_run import FinishedRun


for name, examples in {"push": 10, "thorough": 100}.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,  # the machine may be busy
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
settings.load_profile("push")  # `--hypothesis-profile=thorough` replaces it


def pytest_configure() -> None:
    """Let Ctrl-C interrupt, though a shell that starts tests in the background has it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONGEST = ("test_exact_resume.py", "test_tutorial.py")
"""Files to begin with: the last process to end should not wait for one of them alone."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)  # the rest stays in its order


def pytest_collection_finish() -> None:
    """Let the garbage collector skip all that is imported by now.

    mmengine calls it for every dataset, and it would go through half a million objects each time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def stream() -> list[torch.Tensor]:
    """Eight batches that alternate between two very different styles."""
    torch.manual_seed(1)
    return [torch.randn(2, 3, 8, 8) * (1 if i % 2 else 6) + 3 * (i % 2) for i in range(8)]


@pytest.fixture(scope="session")
def minicity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small MiniCity: 8 clear images, 3 of each adverse condition. To be read only."""
    root = tmp_path_factory.mktemp("data") / "minicity"
    write_dataset(root, counts=make_counts(train=8, val=2, adverse_train=3, adverse_val=1))
    return root


@pytest.fixture(scope="session")
def tiny_model() -> EncoderDecoder:
    """The tiny SegFormer with random weights. To be copied before it is changed."""
    from mmengine.config import Config
    from mmengine.registry import init_default_scope
    from mmseg.registry import MODELS

    import mmseg_reservoir.seg  # noqa: F401 (the fixtures of core tests must not need mmseg)

    init_default_scope("mmseg")
    torch.manual_seed(0)
    cfg = Config.fromfile(Path(__file__).parents[1] / "configs/_base_/models/segformer_tiny.py")
    return MODELS.build(cfg.model).eval()


@pytest.fixture(scope="session")
def source_run(minicity: Path, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """A run without adaptation and with seed 7; its panels are beside its work directory."""
    from stream_run import finished

    folder = tmp_path_factory.mktemp("source")
    flags = ["--seed=7", f"--show-dir={folder / 'panels'}"]
    every_image = "custom_hooks.2.interval=0"  # of ProgressHook
    config = "segformer-tiny_source"
    return finished(config, minicity, folder / "w", every_image, flags=flags)


@pytest.fixture(scope="session")
def reservoir_run(minicity: Path, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """A run of TENT with a reservoir; its cache is beside its work directory."""
    from stream_run import finished, seeded_reservoir

    folder = tmp_path_factory.mktemp("reservoir")
    options = seeded_reservoir(folder / "cache")
    return finished("segformer-tiny_tent_reservoir", minicity, folder / "w", *options)


@pytest.fixture(autouse=True)
def _new_loggers():
    """Forget mmengine's loggers: two runs that start in the same second would share one."""
    if (logging := sys.modules.get("mmengine.logging")) is not None:
        logging.MMLogger._instance_dict.clear()
