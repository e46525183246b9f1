"""Reads the parity traces: recorded runs of the published implementation, and what they ran on.

Their folder is ``$RESERVOIR_PARITY``; its FORMAT.md explains every name that is used here.
:func:`build_pipeline` is the one place where the options of the published code become ours.
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

from mmseg_reservoir.cls import AdaptiveClassifier
from mmseg_reservoir.config.builder import CLASSIFICATION, RunBuilder, TaskContext
from mmseg_reservoir.core import ImageRange
from mmseg_reservoir.core.pipeline import AdaptationPipeline
from mmseg_reservoir.methods import AdaptationMethod, OptimizerFactory
from mmseg_reservoir.params import ParamSpace, norm_affine, use_batch_statistics
from mmseg_reservoir.registry import find
from mmseg_reservoir.style import Calibration, StyleEncoder
from mmseg_reservoir.style.statistics import logvar

FOLDER = Path(os.environ.get("RESERVOIR_PARITY") or os.devnull)
ABSENT = "no parity traces: name their folder in the environment variable RESERVOIR_PARITY"
_SOURCE_STYLES = 1000  # so many source batches the published code looks at
_IMAGENET_MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
_IMAGENET_STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


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


def runs(
    having: str = "step.logits", slow_but: tuple[str, ...] | None = None
) -> pytest.MarkDecorator:
    """Mark a test to be run for all of them, as slow for all ``slow_but`` these if given."""
    names = [
        name if slow_but is None or name in slow_but else pytest.param(name, marks=pytest.mark.slow)
        for name in run_names(having)
    ]
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
    def base(self) -> str:
        """The published name of the method, without that of the reservoir."""
        return self.about["method"].removesuffix("_reservoirtta")

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
    """Styles of the set's images by our encoders, each computed once.

    Args:
        vgg_file: Where to write the recorded VGG weights under torchvision's names.
    """

    def __init__(self, vgg_file: Path) -> None:
        weights = {
            key.replace("vgg.", "features."): value
            for key, value in shared("weights").items()
            if key.startswith("vgg.")
        }
        self.vgg_file = vgg_file
        torch.save(weights, vgg_file)
        self.encoders = {
            name.upper(): StyleEncoder(str(vgg_file), statistic=name)
            for name in ("logvar", "mean", "var", "mean_var", "gram")
        }
        self._known: dict[tuple[str, bytes], Tensor] = {}

    def encode(self, inputs: Tensor, kind: str = "LOGVAR") -> Tensor:
        """The style of a batch."""
        key = kind, hashlib.sha1(inputs.numpy().tobytes()).digest()
        if key not in self._known:
            self._known[key] = self.encoders[kind](normalised(inputs))
        return self._known[key]

    @cache  # noqa: B019 (one book per session)
    def calibration(self, kind: str = "LOGVAR") -> Calibration:
        """The styles of the source batches, in the recorded order.

        Many batches of few images: what is needed of every image is computed once, and the style
        of every batch is made of it.
        """
        order = shared("images")["source_order"]
        batches = [indices for number in range(len(order)) for indices in source_batches(number)]
        batches = batches[:_SOURCE_STYLES]
        everything = torch.arange(len(shared("images")["source_images"]))
        if kind == "VAR":
            return Calibration(self.calibration("LOGVAR").styles.exp())
        if kind == "LOGVAR":
            taps = self._features(everything)
            styles = [torch.cat([logvar(tap[indices]) for tap in taps]) for indices in batches]
        else:  # means over the images of a batch
            each = torch.stack([self.encode(source_images(i[None]), kind) for i in everything])
            styles = [each[indices].mean(dim=0) for indices in batches]
        return Calibration(torch.stack(styles))

    @torch.no_grad()
    def _features(self, indices: Tensor) -> list[Tensor]:
        encoder = self.encoders["LOGVAR"]
        x, taps = normalised(source_images(indices)), []
        for index, layer in enumerate(encoder.features):
            x = layer(x)
            if index in encoder.taps:
                taps.append(x)
        return taps


# Models, methods and pipelines.


def build_layer(options: dict[str, Any]) -> nn.Module:
    """A layer of torch.nn; the recorded names of its arguments are shorter than torch's."""
    cls = getattr(nn, options["type"])
    unit = "channels" if options["type"].startswith("Conv") else "features"
    longer = {
        "in": f"in_{unit}",
        "out": f"out_{unit}",
        "kernel": "kernel_size",
        "output": "output_size",
    }
    return cls(**{longer.get(key, key): value for key, value in options.items() if key != "type"})


def build_model(name: str) -> nn.Module:
    """The recorded classifier, normalising with the statistics of the batch."""
    data = json.loads((FOLDER / f"data_{set_name()}.json").read_text())
    layers = data["models"][name]["layers"]
    model = nn.Sequential(*(build_layer(options) for options in layers))
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


def optimizer_of(run: Run) -> OptimizerFactory:
    """Makes the optimizer of a run."""
    optim, name = run.cfg["OPTIM"], run.base
    if name == "sar" or optim["METHOD"] == "SGD":
        return partial(
            torch.optim.SGD,
            lr=optim["LR"],
            momentum=optim["MOMENTUM"],
            dampening=optim["DAMPENING"],
            weight_decay=optim["WD"],
            nesterov=optim["NESTEROV"] and name != "sar",
        )
    betas = (optim["BETA"], 0.999)
    return partial(torch.optim.Adam, lr=optim["LR"], betas=betas, weight_decay=optim["WD"])


def method_options(run: Run) -> dict[str, Any]:
    """The adaptation method of a run, as a user would write it."""
    eata, roid = run.cfg["EATA"], run.cfg["ROID"]
    if run.base == "tent":
        return dict(type="tent")
    if run.base == "sar":
        return dict(
            type="sar",
            margin=eata["MARGIN_E0"],
            reset_below=run.cfg["SAR"]["RESET_CONSTANT_EM"],
            published_momentum=True,
        )
    if run.base == "roid":
        return dict(
            type="roid",
            alpha=roid["MOMENTUM_SRC"],
            temperature=roid["TEMPERATURE"],
            momentum=roid["MOMENTUM_PROBS"],
            prior_correction=roid["USE_PRIOR_CORRECTION"],
            batch_size=run.cfg["TEST"]["BATCH_SIZE"],
        )
    if run.base == "eata":  # which is also the published name of ETA and of RDumb
        filters = dict(margin=eata["MARGIN_E0"], d_margin=eata["D_MARGIN"])
        reset_every = run.cfg["MODEL"]["RESET_AFTER_NUM_UPDATES"]
        if reset_every:
            return dict(type="rdumb", **filters, reset_every=reset_every)
        if not eata["FISHER_ALPHA"]:
            return dict(type="eta", **filters)
        return dict(type="eata", **filters, fisher_alpha=eata["FISHER_ALPHA"])
    raise NotImplementedError(f"the traces have a method that we do not know: {run.base}")


def build_method(run: Run) -> AdaptationMethod:
    """The adaptation method of a run, around its own copy of the model."""
    model = build_model(run.about["model"])
    space = ParamSpace(model, norm_affine(model))
    assert space.names == run.about["param_names"]
    options = method_options(run)
    method = find("method", options.pop("type"))(model, space, optimizer_of(run), **options)
    if method.needs_source:
        method.prepare(source_images(indices) for indices in source_batches(0))
    return method


def memory_options(run: Run) -> dict[str, Any]:
    """The style memory of a run."""
    recorded = run.cfg["RESERVOIRTTA"]
    options: dict[str, Any] = {"capacity": recorded["SIZE_OF_BUFFER"]}
    if recorded["SOURCE_BUFFER"]:
        options["source_styles"] = len(list(source_batches(0)))
    if recorded["SAMPLING"] == "reservoir":
        draws = iter(run.trace["step.replace_index"][run.trace["step.replace_index"] >= 0].tolist())
        return {**options, "type": "published", "per_expert": True, "draw": lambda _: next(draws)}
    return {**options, "type": recorded["SAMPLING"], "per_expert": True}


def reservoir_options(run: Run) -> dict[str, Any]:
    """The preset ``published_code`` with the options of a run."""
    recorded = run.cfg["RESERVOIRTTA"]
    return {
        "preset": "published_code",
        "k_max": recorded["MAX_NUM_MODELS"],
        "router": {"quantile": recorded["QUANTILE_THR"]},
        "memory": memory_options(run),
        "pipeline": {
            "init": recorded["INIT"],
            "ensemble": recorded["ENSEMBLING"],
            "progressive": recorded["PROGRESSIVE_UPDATE"],
        },
    }


def build_pipeline(run: Run, book: StyleBook) -> AdaptationPipeline:
    """Our pipeline for a run."""
    method, reservoir = build_method(run), None
    if run.has_reservoir:
        recorded, kind = run.cfg["RESERVOIRTTA"], run.style_format
        assert tuple(recorded["STYLE_IDX"]) == book.encoders[kind].taps
        ready = {"style": partial(book.encode, kind=kind), "calibration": book.calibration(kind)}
        reservoir = {**reservoir_options(run), **ready}
    plan = RunBuilder(CLASSIFICATION, method, reservoir=reservoir)
    place = TaskContext(method.space.model, nn.Module.__call__, ImageRange("unit"))
    pipeline = plan.assemble(place)
    plan.calibrate(pipeline, place)
    return pipeline


def build_classifier(run: Run, book: StyleBook) -> AdaptiveClassifier:
    """The same by the classification adapter, with its own encoder, as a user would do it."""
    reservoir = None
    if run.has_reservoir:
        style = {"weights": str(book.vgg_file), "statistic": run.style_format.lower()}
        calibration = book.calibration(run.style_format)
        reservoir = {**reservoir_options(run), "style": style, "calibration": calibration}
    return AdaptiveClassifier(
        build_model(run.about["model"]),
        {**method_options(run), "optimizer": optimizer_of(run)},
        reservoir=reservoir,
        source=[source_images(indices) for indices in source_batches(0)],  # for the Fisher term
        batch_size=run.cfg["TEST"]["BATCH_SIZE"],
    )
