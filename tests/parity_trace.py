"""Reads the parity traces: recorded runs of the published implementation, and what they ran on.

Their folder is ``$RESERVOIR_PARITY``, or ``../shared/parity`` beside the repository; its FORMAT.md
explains every name that is used here. :func:`build_pipeline` is the one place where the options of
the published code become ours.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from mmseg_reservoir.core import (
    Calibration,
    ParamSpace,
    ReservoirPipeline,
    SingleModelPipeline,
    StyleEncoder,
    StyleMemory,
    StyleRouter,
    norm_affine,
    use_batch_statistics,
)
from mmseg_reservoir.core.pipeline import AdaptationPipeline
from mmseg_reservoir.core.style import log_variance
from mmseg_reservoir.methods import AdaptationMethod, Eata, Eta, RDumb, Roid, Sar, Tent

FOLDER = Path(
    os.environ.get("RESERVOIR_PARITY") or Path(__file__).resolve().parents[2] / "shared" / "parity"
)
ABSENT = f"no parity traces in {FOLDER}: name their folder in RESERVOIR_PARITY"
_SOURCE_STYLES = 1000  # so many source batches the published code looks at
_IMAGENET_MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
_IMAGENET_STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


class NotSupportedYet(Exception):
    """The run has an option that the core does not have yet."""


@cache
def set_name() -> str | None:
    """The letter of the trace set; None if there is no such folder."""
    found = sorted(FOLDER.glob("images_*.safetensors"))
    return found[0].stem.removeprefix("images_") if found else None


def run_names(having: str = "step.logits") -> list[str]:
    """The runs that recorded tensors whose names begin with ``having``; all have their logits."""
    if set_name() is None:
        return []
    paths = sorted(p for p in FOLDER.glob("*.json") if not p.stem.startswith("data_"))
    return [p.stem for p in paths if any(name.startswith(having) for name in _tensor_names(p.stem))]


def runs(having: str = "step.logits") -> pytest.MarkDecorator:
    """Mark a test to be run for all of them."""
    names = run_names(having)
    if not names:
        reason = f"no run has recorded {having}" if set_name() else ABSENT
        names = [pytest.param("none", marks=pytest.mark.skip(reason))]
    return pytest.mark.parametrize("run", names, indirect=True)


@cache
def _tensor_names(run: str) -> list[str]:
    with safe_open(FOLDER / f"{run}.safetensors", "pt") as file:
        return list(file.keys())


@cache
def shared(kind: str) -> dict[str, Tensor]:
    """The tensors that all runs share: ``images``, ``weights`` or ``styles``."""
    return load_file(FOLDER / f"{kind}_{set_name()}.safetensors")


@dataclass(frozen=True)
class Run:
    """One recorded run."""

    name: str

    @cached_property
    def about(self) -> dict[str, Any]:
        return json.loads((FOLDER / f"{self.name}.json").read_text())

    @cached_property
    def trace(self) -> dict[str, Tensor]:
        return load_file(FOLDER / f"{self.name}.safetensors")

    @property
    def cfg(self) -> dict[str, Any]:
        """Every option in force, as the published code names them."""
        return self.about["cfg"]

    @property
    def has_reservoir(self) -> bool:
        return self.about["method"].endswith("_reservoirtta")

    @property
    def style_format(self) -> str:
        return self.cfg["RESERVOIRTTA"]["STYLE_FORMAT"]

    @property
    def styles(self) -> Tensor:
        """The recorded style vectors of its batches."""
        return shared("styles")[self.about["style_tensor"].split(":")[1]][: self.about["steps"]]

    def batches(self) -> Iterator[Tensor]:
        """The batches of its stream; some may be incomplete."""
        partial_batches = self.about["partial_batches"]
        for step in range(self.about["steps"]):
            images = shared("images")[f"{self.about['stream']}_images"][step]
            yield as_inputs(images[: partial_batches.get(str(step))])

    def is_complete(self, batch: Tensor) -> bool:
        return len(batch) == self.cfg["TEST"]["BATCH_SIZE"]

    def expert(self, k: int) -> Tensor:
        """The recorded final parameters of expert ``k``."""
        names = self.about["param_names"]
        return torch.cat([self.trace[f"final.domain.{k}.{name}"] for name in names])


def as_inputs(images: Tensor) -> Tensor:
    """What the classifiers take: values in [0, 1]."""
    return images.float() / 255


# The source images, and the styles of all images.


def source_batches(number: int) -> Iterator[Tensor]:
    """Indices of the source images of every batch of one pass."""
    batch_size = json.loads((FOLDER / f"data_{set_name()}.json").read_text())["batch_size"]
    yield from shared("images")["source_order"][number].long().split(batch_size)


def source_images(indices: Tensor) -> Tensor:
    return as_inputs(shared("images")["source_images"][indices])


def normalised(inputs: Tensor) -> Tensor:
    """Normalise as VGG-19 wants it."""
    return (inputs - _IMAGENET_MEAN) / _IMAGENET_STD


class StyleBook:
    """Styles of the set's images by our encoder, each computed once.

    Args:
        vgg_file: Where to write the recorded VGG weights under torchvision's names.
    """

    def __init__(self, vgg_file: Path) -> None:
        weights = {
            key.replace("vgg.", "features."): value
            for key, value in shared("weights").items()
            if key.startswith("vgg.")
        }
        torch.save(weights, vgg_file)
        self.encoder = StyleEncoder(str(vgg_file))
        self._known: dict[bytes, Tensor] = {}

    def encode(self, inputs: Tensor) -> Tensor:
        """The style of a batch."""
        key = hashlib.sha1(inputs.numpy().tobytes()).digest()
        if key not in self._known:
            self._known[key] = self.encoder(normalised(inputs))
        return self._known[key]

    @cached_property
    def calibration(self) -> Calibration:
        """The styles of the source batches, in the recorded order.

        Many batches of few images: the features of every image are computed once, and the
        statistic of every batch is taken from them.
        """
        taps = self._features(torch.arange(len(shared("images")["source_images"])))
        styles: list[Tensor] = []
        for number in range(len(shared("images")["source_order"])):
            for indices in source_batches(number):
                styles.append(torch.cat([log_variance(tap[indices]) for tap in taps]))
        return Calibration(torch.stack(styles[:_SOURCE_STYLES]))

    @torch.no_grad()
    def _features(self, indices: Tensor) -> list[Tensor]:
        x, taps = normalised(source_images(indices)), []
        for index, layer in enumerate(self.encoder.features):
            x = layer(x)
            if index in self.encoder.taps:
                taps.append(x)
        return taps

    @cache  # noqa: B019 (one book per session)
    def threshold(self, quantile: float) -> float:
        """tau."""
        return self.calibration.threshold(quantile)


# Models, methods and pipelines.

_LAYERS = {
    "Conv2d": lambda o: nn.Conv2d(
        o["in"], o["out"], o["kernel"], o["stride"], o["padding"], bias=o["bias"]
    ),
    "BatchNorm2d": lambda o: nn.BatchNorm2d(o["num_features"], o["eps"], affine=o["affine"]),
    "GroupNorm": lambda o: nn.GroupNorm(
        o["num_groups"], o["num_channels"], o["eps"], affine=o["affine"]
    ),
    "ReLU": lambda o: nn.ReLU(),
    "AdaptiveAvgPool2d": lambda o: nn.AdaptiveAvgPool2d(o["output"]),
    "Flatten": lambda o: nn.Flatten(),
    "Linear": lambda o: nn.Linear(o["in"], o["out"], o["bias"]),
}


def build_model(name: str) -> nn.Module:
    """The recorded classifier, normalising with the statistics of the batch."""
    data = json.loads((FOLDER / f"data_{set_name()}.json").read_text())
    layers = data["models"][name]["layers"]
    model = nn.Sequential(*(_LAYERS[options["type"]](options) for options in layers))
    weights = {
        key.removeprefix(f"{name}."): value
        for key, value in shared("weights").items()
        if key.startswith(f"{name}.")
    }
    # Counters of BatchNorm are not recorded, and no method looks at them.
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all(key.endswith("num_batches_tracked") for key in missing)
    use_batch_statistics(model)
    return model.eval()


def build_method(run: Run) -> AdaptationMethod:
    """The adaptation method of a run, around its own copy of the model."""
    model = build_model(run.about["model"])
    space = ParamSpace(model, norm_affine(model))
    assert space.names == run.about["param_names"]
    optim, eata, roid = (run.cfg[section] for section in ("OPTIM", "EATA", "ROID"))
    name = run.about["method"].removesuffix("_reservoirtta")

    if name == "sar" or optim["METHOD"] == "SGD":
        optimizer = partial(
            torch.optim.SGD,
            lr=optim["LR"],
            momentum=optim["MOMENTUM"],
            dampening=optim["DAMPENING"],
            weight_decay=optim["WD"],
            nesterov=optim["NESTEROV"] and name != "sar",
        )
    else:
        betas = (optim["BETA"], 0.999)
        optimizer = partial(torch.optim.Adam, lr=optim["LR"], betas=betas, weight_decay=optim["WD"])

    if name == "tent":
        return Tent(model, space, optimizer)
    if name == "sar":
        return Sar(
            model,
            space,
            optimizer,
            margin=eata["MARGIN_E0"],
            reset_below=run.cfg["SAR"]["RESET_CONSTANT_EM"],
            published_momentum=True,
        )
    if name == "roid":
        return Roid(
            model,
            space,
            optimizer,
            alpha=roid["MOMENTUM_SRC"],
            temperature=roid["TEMPERATURE"],
            momentum=roid["MOMENTUM_PROBS"],
            prior_correction=roid["USE_PRIOR_CORRECTION"],
            batch_size=run.cfg["TEST"]["BATCH_SIZE"],
        )
    if name == "eata":  # which is also the published name of ETA and of RDumb
        filters = dict(margin=eata["MARGIN_E0"], d_margin=eata["D_MARGIN"])
        reset_every = run.cfg["MODEL"]["RESET_AFTER_NUM_UPDATES"]
        if reset_every:
            return RDumb(model, space, optimizer, **filters, reset_every=reset_every)
        if not eata["FISHER_ALPHA"]:
            return Eta(model, space, optimizer, **filters)
        method = Eata(model, space, optimizer, **filters, fisher_alpha=eata["FISHER_ALPHA"])
        method.prepare(source_images(indices) for indices in source_batches(0))
        return method
    raise NotSupportedYet(f"method {name}")


def build_memory(run: Run) -> StyleMemory:
    """The style memory of a run."""
    options = run.cfg["RESERVOIRTTA"]
    if options["SOURCE_BUFFER"]:
        raise NotSupportedYet("SOURCE_BUFFER: a memory filled with source styles")
    if run.about["buffer_size"] == run.about["steps"]:  # it never was full
        return StyleMemory(options["SIZE_OF_BUFFER"])
    if options["SAMPLING"] == "reservoir":
        raise NotSupportedYet("a memory that grows with K, and its recorded random draws")
    raise NotSupportedYet(f"SAMPLING: a memory of the kind {options['SAMPLING']!r}")


def build_pipeline(run: Run, book: StyleBook) -> AdaptationPipeline:
    """Our pipeline with the options of a run; NotSupportedYet if one of them is not ours yet."""
    if not run.has_reservoir:
        return SingleModelPipeline(build_method(run))
    options = run.cfg["RESERVOIRTTA"]
    if run.style_format != "LOGVAR":
        raise NotSupportedYet(f"STYLE_FORMAT {run.style_format}")
    if tuple(options["STYLE_IDX"]) != book.encoder.taps:
        raise NotSupportedYet(f"STYLE_IDX {options['STYLE_IDX']}")
    if not options["ENSEMBLING"]:
        raise NotSupportedYet("ENSEMBLING=False: predicting with the adapted expert alone")
    if options["PROGRESSIVE_UPDATE"]:
        raise NotSupportedYet("PROGRESSIVE_UPDATE: committing a part of the update")
    router = StyleRouter(
        book.calibration.centroid,
        book.threshold(options["QUANTILE_THR"]),
        k_max=options["MAX_NUM_MODELS"],
        memory=build_memory(run),
    )
    return ReservoirPipeline(build_method(run), router, book.encode, init=options["INIT"])
