"""A whole test of a classifier, from options: stream, adaptation, results."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import ReservoirError
from ..options import choose, construct, suggest
from .backbones import build_backbone
from .classifier import AdaptiveClassifier
from .datasets import SourceBatches, build_dataset, build_source
from .progress import StreamProgress
from .results import ResultsRecord
from .stream import StreamBatch
from .streams import STREAMS, CCCStream, build_stream

Options = Mapping[str, Any]
REQUIRED = ("data", "model", "method", "stream")
OPTIONAL = (
    "optimizer",
    "params",
    "reservoir",
    "source",
    "batch_statistics",
    "randomness",
    "device",
    "work_dir",
)
"""Keys that a config may have; the rest is a mistake."""


def run(
    config: Options, work_dir: str | Path, config_file: str | None = None, quiet: bool = False
) -> dict[str, Any]:
    """Test a classifier on a stream while it adapts; returns what ``results.json`` says.

    Args:
        config: Plain options. Needed: ``data``, ``model``, ``method`` and ``stream``, each with a
            ``type``. ``optimizer``, ``params``, ``reservoir`` and ``batch_statistics`` are those
            of `AdaptiveClassifier`; ``source`` names clean images and how many to take
            (``num_images``); ``randomness.seed`` is the seed of everything; ``device`` is where to
            compute.
        work_dir: Where the results go.
        config_file: Where the options were written, for the record.
        quiet: Show no progress.
    """
    check_keys(config)
    seed = int((config.get("randomness") or {}).get("seed") or 0)
    torch.manual_seed(seed)
    device = find_device(config.get("device"))
    stream = make_stream(config, seed)
    model = make_model(config, stream.batch_size, seed, device)
    router = getattr(model.pipeline, "router", None)
    about = {
        "method": type(model.method).__name__,
        "reservoir": router is not None,
        "seed": seed,
        "tau": getattr(router, "tau", None),
        "config_file": config_file,
        "data": _describe(stream),
        "stream": stream.record(),
        "config": dict(config),
    }
    one_domain = stream.data.title if isinstance(stream, CCCStream) else None
    record = ResultsRecord(about, Path(work_dir), one_domain)
    total = stream.limit if isinstance(stream, CCCStream) else len(stream)
    start = time.process_time()
    with StreamProgress(total, getattr(stream, "rounds", None), quiet) as progress:
        try:
            for batch in stream:
                visit = record.add(batch, *_step(model, batch, device))
                progress.advance(visit, model.last.route.index)
        except BaseException:
            if record.results["routes"]:
                record.write()  # marked as incomplete
            raise
    return record.finish(model.method.counts, time.process_time() - start)


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
    for key in config:
        if key not in REQUIRED + OPTIONAL:
            raise ReservoirError(f"the config has no use for {key!r}{suggest(key, known_keys())}")
    for key in REQUIRED:
        if not config.get(key):
            raise ReservoirError(f"the config has no {key!r}: it needs {', '.join(REQUIRED)}")


def known_keys() -> tuple[str, ...]:
    """All keys that a config may have."""
    return REQUIRED + OPTIONAL


def make_stream(config: Options, seed: int) -> Any:
    """The stream that ``data`` and ``stream`` describe; its own seed is that of the run."""
    options = dict(config["stream"])
    kind = choose(options.get("type", "csc"), STREAMS, "stream")
    if kind is not CCCStream:  # whose order is written on disk
        options.setdefault("seed", seed)
    return build_stream(options, build_dataset(config["data"]))


def make_model(
    config: Options, batch_size: int, seed: int, device: torch.device
) -> AdaptiveClassifier:
    """The network that ``model`` describes, adapting as the other keys say."""
    source = config.get("source")
    return AdaptiveClassifier(
        build_backbone(config["model"]).to(device),
        method=config["method"],
        reservoir=config.get("reservoir"),
        source=None if source is None else LazySource(source, batch_size, seed),
        optimizer=config.get("optimizer"),
        params=config.get("params"),
        batch_statistics=config.get("batch_statistics"),
        batch_size=batch_size,
        seed=seed,
    )


class LazySource:
    """Source batches that are looked for only if somebody wants them.

    A plain method needs none, and then their folder need not be there.

    Args:
        options: ``type``, its options, and ``num_images``: how many to draw.
        batch_size: As in the stream.
        seed: Of the draw.
    """

    def __init__(self, options: Options, batch_size: int, seed: int) -> None:
        self.options = dict(options)
        self.fixed = {"batch_size": batch_size, "seed": seed}
        if "num_images" in self.options:
            self.fixed["count"] = self.options.pop("num_images")
        self._batches: SourceBatches | None = None

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        if self._batches is None:
            images = build_source(self.options)
            self._batches = construct(SourceBatches, {}, "source", images=images, **self.fixed)
        yield from self._batches


def _step(model: AdaptiveClassifier, batch: StreamBatch, device: torch.device) -> tuple:
    """What the model did with a batch, and the seconds that it took."""
    images = batch.images.to(device)
    start = time.perf_counter()
    model(images, domain=batch.domain)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return model.last, time.perf_counter() - start


def _describe(stream: Any) -> dict[str, Any]:
    """What was tested on, the same for every seed."""
    if isinstance(stream, CCCStream):
        return {"title": stream.data.title, "run": stream.data.folder.name}
    return stream.data.describe()
