"""A whole test of a classifier, from options: stream, adaptation, results."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config.builder import CLASSIFICATION, RunBuilder
from ..config.schema import Options, check_options, parameters_of, pick
from ..core.reservoir_pipeline import ReservoirPipeline
from ..datasets import SourceBatches, build_dataset, build_source
from ..errors import ReservoirError
from ..registry import find, suggest
from ..report.progress import StreamProgress
from ..runs.generators import seed_generators
from ..runs.identity import run_identity
from ..runs.record import RunRecord, about_pipeline
from ..runs.run_saver import RunSaver
from ..snapshot import save_reservoir
from ..style.encoder import weight_digest
from .backbones import build_backbone
from .classifier import AdaptiveClassifier
from .stream_results import StreamResults
from .stream_tester import StreamTest
from .streams import CCCStream, build_stream

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
"""Keys that a config may have; the rest is a mistake."""
_NOT_SAVING = ("work_dir", "resume", "overwrite", "say")
"""Of `RunSaver`, what is not for ``saving``."""


def run(
    config: Options,
    work_dir: str | Path,
    config_file: str | None = None,
    quiet: bool = False,
    row: str | None = None,
    resume: str | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Test a classifier on a stream while it adapts; returns what ``results.json`` says.

    Args:
        config: Plain options. Needed: ``data``, ``model``, ``method`` and ``stream``, each with a
            ``type``. ``params``, ``statistics`` and ``reservoir`` are those of
            `AdaptiveClassifier`; ``source_images`` names clean images and how many to take
            (``num_images``); ``randomness.seed`` is the seed of everything; ``device`` is where to
            compute; ``saving`` has the ``minutes`` or ``images`` between two states, and
            ``keep_mb``, see `RunSaver`.
        work_dir: Where the results go.
        config_file: Where the options were written, for the record.
        quiet: Show no progress.
        row: Which row of that file, where it is a table (see `row_label`), for the record.
        resume: Go on with a run that was killed: with the newest state in ``work_dir``
            (``"auto"``), or with the state of this file.
        overwrite: Begin although ``work_dir`` holds results, which are removed.
    """
    check_keys(config)
    seed = int((config.get("randomness") or {}).get("seed") or 0)
    plan = check_all(config, seed)
    say = _nothing if quiet else print
    saving = config.get("saving") or {}
    with RunSaver(work_dir, resume, overwrite, **saving, say=say) as saver:
        seed_generators(seed)
        device = find_device(config.get("device"))
        stream = build_stream(config["stream"], build_dataset(config["data"]), seed)
        model = make_model(config, stream.batch_size, seed, device, plan)
        if model.waits_for_source:
            raise ReservoirError(
                f"{type(model.method).__name__} or its reservoir learns from source images: name "
                "them, source_images=dict(type=...)"
            )
        say(model.plan.describe())
        if isinstance(stream, CCCStream):
            total, one_domain = stream.limit, stream.data.title
            data = {"title": stream.data.title, "run": stream.data.folder.name}
        else:
            total, one_domain, data = len(stream), None, stream.data.describe()
        at_start = {
            **about_pipeline(model.pipeline),
            "seed": seed,
            "config_file": config_file,
            "row": row,
            "data": data,
            "stream": stream.record(),
            "options": model.plan.options,
            "config": dict(config),
        }
        record = RunRecord(Path(work_dir), "error", at_start)
        test = StreamTest(model, stream, StreamResults(record, one_domain), device)
        state = saver.begin(run_identity(record.to_json(), weight_digest(model.net)))
        if state is None:
            saver.save(0, test.state_dict)
        else:
            with saver.restoring():
                test.load_state_dict(state)
        with StreamProgress(total, "batches", getattr(stream, "rounds", None), quiet) as progress:
            test.run(saver, progress)
        saver.save(test.results.images, test.state_dict)
        more = {"cpu_seconds": test.cpu_seconds, **model.pipeline.report()}
        if isinstance(model.pipeline, ReservoirPipeline) and not model.frozen:
            about = {"options": model.plan.options, "batch_size": model.batch_size}
            save_reservoir(model.pipeline, Path(work_dir) / "reservoir", about)
        results = record.finish(model.method.counts, **more)
        saver.finish()
    return results


def _nothing(text: str) -> None:
    """Say nothing."""


def find_device(name: str | None) -> torch.device:
    """The device of that name; by default a GPU if there is one."""
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
    """Refuse a config that lacks something, or has something that nobody would read."""
    valid = REQUIRED + OPTIONAL
    for key in config:
        if key not in valid:
            raise ReservoirError(f"the config has no use for {key!r}{suggest(key, valid)}")
    for key in REQUIRED:
        if not config.get(key):
            raise ReservoirError(f"the config has no {key!r}: it needs {', '.join(REQUIRED)}")


def check_all(config: Options, seed: int) -> RunBuilder:
    """Find what is wrong with any option, before anything is read or computed.

    Returns:
        The plan of the run.
    """
    plan = RunBuilder(CLASSIFICATION, **_adaptation(config), seed=seed)
    pick("data", config["data"], "data")
    pick("stream", config["stream"], "stream", default="csc", given=("data",))
    check_options(RunSaver, config.get("saving") or {}, "saving", _NOT_SAVING)
    if config.get("source_images"):
        _source_options(config["source_images"])
    return plan


def make_model(
    config: Options,
    batch_size: int,
    seed: int,
    device: torch.device,
    plan: RunBuilder | None = None,
) -> AdaptiveClassifier:
    """Return the network that ``model`` describes, adapting as the other keys say.

    The ``plan`` is what :func:`check_all` returned; by default it is made here.
    """
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


class LazySource:
    """Source batches that are looked for only if somebody wants them.

    A plain method needs none, and then their folder need not be there. The options are ``type``,
    those of the type, and ``num_images``: how many to draw.
    """

    def __init__(self, options: Options, batch_size: int, seed: int) -> None:
        self.options, count = _source_options(options)
        self.fixed = {"batch_size": batch_size, "seed": seed, **count}

    @cached_property
    def _batches(self) -> SourceBatches:
        return SourceBatches(build_source(self.options), **self.fixed)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield from self._batches


def _source_options(options: Options) -> tuple[dict[str, Any], dict[str, int]]:
    """What names the images, and how many of them to draw."""
    options = dict(options)
    valid = ("type", "num_images", *parameters_of(find("source", options.get("type", ""))))
    for name in options:
        if name not in valid:
            raise ReservoirError(f"source_images has no option {name!r}{suggest(name, valid)}")
    count = {"count": options.pop("num_images")} if "num_images" in options else {}
    check_options(SourceBatches, count, "source_images", ("images", "batch_size", "seed"))
    if count and count["count"] < 1:
        raise ReservoirError(f"source_images.num_images must be 1 or more, got {count['count']}")
    pick("source", options, "source_images")
    return options, count
