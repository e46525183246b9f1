"""Test a classifier on a stream as a config describes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..config.builder import CLASSIFICATION, RunBuilder
from ..config.schema import Options, pick
from ..core.reservoir_pipeline import ReservoirPipeline
from ..datasets import build_dataset
from ..datasets.source_batches import LazySource, source_options
from ..errors import ReservoirError
from ..registry import check_options, suggest
from ..report.progress import StreamProgress
from ..runs.generators import seed_generators
from ..runs.identity import run_identity
from ..runs.record import RunRecord, about_pipeline
from ..runs.run_saver import RunSaver
from ..snapshot import save_reservoir
from ..style.encoder import weight_digest
from .backbones import build_backbone
from .classifier import AdaptiveClassifier
from .stream_tester import StreamTest
from .streams import build_stream

REQUIRED = ("data", "model", "method", "stream")
OPTIONAL = (
    "params",
    "statistics",
    "reservoir",
    "source_images",
    "randomness",
    "device",
    "work_dir",
    "saving",
    "custom_imports",
)
"""Valid keys of a config."""
_NOT_SAVING = ("work_dir", "resume", "overwrite", "report")
"""Arguments of `RunSaver` that are not options of ``saving``."""


def run(
    config: Options,
    work_dir: str | Path,
    config_file: str | None = None,
    quiet: bool = False,
    row: str | None = None,
    resume: str | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Test a classifier that adapts to a stream, and return the content of ``results.json``.

    Args:
        config: Options ``data``, ``model``, ``method`` and ``stream``, each with a ``type``.
            Optional: ``params``, ``statistics`` and ``reservoir``, see `AdaptiveClassifier`;
            ``source_images``, the clean images with their number ``num_images``;
            ``randomness.seed``; ``device``; ``saving``, see `RunSaver`.
        work_dir: Folder of the results.
        config_file: Path of the config, for the record. Defaults to None.
        quiet: Whether to show no progress. Defaults to False.
        row: Row of a config that is a table (see `row_label`), for the record. Defaults to None.
        resume: ``"auto"`` resumes from the newest state in ``work_dir``; a path resumes from that
            state. Defaults to None, a new run.
        overwrite: Whether to remove existing results from ``work_dir``. Defaults to False.
    """
    check_keys(config)
    seed = int((config.get("randomness") or {}).get("seed") or 0)
    plan = check_all(config, seed)
    report: Callable[[str], None] = (lambda text: None) if quiet else print
    saving = config.get("saving") or {}
    with RunSaver(work_dir, resume, overwrite, **saving, report=report) as saver:
        seed_generators(seed)
        device = find_device(config.get("device"))
        stream = build_stream(config["stream"], build_dataset(config["data"]), seed)
        model = make_model(config, stream.batch_size, seed, device, plan)
        if model.waits_for_source:
            raise ReservoirError(
                f"{type(model.method).__name__} or its reservoir learns from source images: name "
                "them, source_images=dict(type=...)"
            )
        report(model.plan.describe())
        at_start = {
            **about_pipeline(model.pipeline),
            "seed": seed,
            "config_file": config_file,
            "row": row,
            "data": stream.data.describe(),
            "stream": stream.record(),
            "options": model.plan.options,
            "config": dict(config),
        }
        record = RunRecord(Path(work_dir), "error", at_start)
        test = StreamTest(model, stream, record, device)
        state = saver.begin(run_identity(record.to_json(), weight_digest(model.net)))
        if state is None:
            saver.save(0, test.state_dict)
        else:
            with saver.restoring():
                test.load_state_dict(state)
        with StreamProgress(stream.total, "batches", stream.rounds, quiet) as progress:
            test.run(saver, progress)
        saver.save(test.images, test.state_dict)
        more = {"cpu_seconds": test.cpu_seconds, **model.pipeline.report()}
        if isinstance(model.pipeline, ReservoirPipeline) and not model.frozen:
            options = {"options": model.plan.options, "batch_size": model.batch_size}
            save_reservoir(model.pipeline, Path(work_dir) / "reservoir", options)
        results = record.finish(model.method.counts, **more)
        saver.finish()
    return results


def find_device(name: str | None) -> torch.device:
    """Return a device by name; for None a GPU if one is available, else the CPU."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ReservoirError(f"there is no device {name!r} here ({reason}): try cpu") from error
    return device


def check_keys(config: Options) -> None:
    """Raise an error if keys of a config are missing or unknown."""
    valid = REQUIRED + OPTIONAL
    for key in config:
        if key not in valid:
            raise ReservoirError(f"the config has no use for {key!r}{suggest(key, valid)}")
    for key in REQUIRED:
        if not config.get(key):
            raise ReservoirError(f"the config has no {key!r}: it needs {', '.join(REQUIRED)}")


def check_all(config: Options, seed: int) -> RunBuilder:
    """Check all options without reading or computing anything; return the builder of the run."""
    plan = RunBuilder(CLASSIFICATION, **_adaptation(config), seed=seed)
    pick("data", config["data"], "data")
    pick("stream", config["stream"], "stream", default="csc", injected=("data",))
    check_options(RunSaver, config.get("saving") or {}, "saving", _NOT_SAVING)
    if config.get("source_images"):
        source_options(config["source_images"])
    return plan


def make_model(
    config: Options,
    batch_size: int,
    seed: int,
    device: torch.device,
    plan: RunBuilder | None = None,
) -> AdaptiveClassifier:
    """Build the model of a config. ``plan`` is the result of :func:`check_all`, if it exists."""
    source = config.get("source_images")
    return AdaptiveClassifier(
        build_backbone(config["model"]).to(device),
        **_adaptation(config),
        source=None if source is None else LazySource(source, batch_size, seed),
        batch_size=batch_size,
        seed=seed,
        plan=plan,
    )


def _adaptation(config: Options) -> dict[str, Any]:
    keys = ("method", "params", "statistics", "reservoir")
    return {key: config[key] for key in keys if config.get(key) is not None}
