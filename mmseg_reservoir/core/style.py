"""Image style: channel statistics of the first layers of a frozen VGG-19 (paper, Sec. 4.1)."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import ReservoirError
from ..options import choose
from ..style_cache import cached_weights, read_safetensors
from .statistics import STATISTICS

logger = logging.getLogger(__name__)

VGG19_URL = "https://download.pytorch.org/models/vgg19-dcbb9e9d.pth"
"""torchvision's own file; the part behind the dash is the start of its sha256."""

TAP_SETS: dict[str, tuple[int, ...]] = {
    "shallow": (2, 5, 7),
    "middle-1": (10, 12, 14, 16),
    "middle-2": (19, 21, 23, 25),
    "deep": (28, 30, 32, 34),
}
TAP_SETS |= {
    "mixed-1": TAP_SETS["shallow"] + TAP_SETS["middle-1"],
    "mixed-2": TAP_SETS["middle-2"] + TAP_SETS["deep"],
    "mixed-3": sum(TAP_SETS.values(), ()),
    "mixed-4": TAP_SETS["shallow"] + TAP_SETS["deep"],
}
"""The paper's VGG configurations (appendix, "Style Features Quality")."""

_VGG19 = (64, 64, "M", 128, 128, "M", *(256,) * 4, "M", *(512,) * 4, "M", *(512,) * 4, "M")


def convolution_indices() -> list[int]:
    """Indices of the convolutions in VGG-19's ``features``, as torchvision counts them."""
    indices, position = [], 0
    for width in _VGG19:
        if width != "M":
            indices.append(position)
        position += 1 if width == "M" else 2  # a convolution is followed by its ReLU
    return indices


def weight_digest(module: nn.Module) -> str:
    """A checksum of all weights of a module."""
    digest = hashlib.sha256()
    for value in module.state_dict().values():
        digest.update(value.cpu().numpy().tobytes())
    return digest.hexdigest()


def vgg19_features(last: int) -> nn.Sequential:
    """VGG-19 ``features[0 .. last]`` with torchvision's indices, without torchvision."""
    layers: list[nn.Module] = []
    channels = 3
    for width in _VGG19:
        if len(layers) > last:
            break
        if width == "M":
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
    return nn.Sequential(*layers[: last + 1])


def seeded_weights(features: nn.Sequential, seed: int = 0) -> dict[str, Tensor]:
    """Fixed random weights (He-normal) for machines without torchvision's file.

    Random filters still respond to contrast, colour and texture, so styles can be told apart, but
    they are not the paper's features.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for index, layer in enumerate(features):
        if isinstance(layer, nn.Conv2d):
            std = (2 / (layer.in_channels * 9)) ** 0.5
            weights[f"{index}.weight"] = std * torch.randn(layer.weight.shape, generator=generator)
            weights[f"{index}.bias"] = 0.05 * torch.randn(layer.bias.shape, generator=generator)
    return weights


def automatic_weights() -> str:
    """What ``"auto"`` means here and now: the path of the user's cached file, or ``"seeded"``."""
    path = cached_weights()
    if path.is_file():
        logger.info("style weights: VGG-19, %s", path)
        return str(path)
    logger.warning(
        "style weights: seeded random filters, not the paper's features, since there is no %s "
        "(python tools/get_style_weights.py makes it)",
        path,
    )
    return "seeded"


def read_vgg19_weights(weights: str) -> dict[str, Tensor]:
    """Read torchvision's VGG-19 file.

    Args:
        weights: A path (``.pth`` or ``.safetensors``, keys ``features.{i}.weight``), or
            ``"torchvision"`` to download the official file once and check its sha256 (through
            ``torch.hub``, the loader behind mmengine's, which does not pass the check on).

    Returns:
        The tensors by ``{i}.weight`` and ``{i}.bias``.
    """
    if weights == "torchvision":
        try:
            state = torch.hub.load_state_dict_from_url(
                VGG19_URL, map_location="cpu", check_hash=True, weights_only=True
            )
        except OSError as error:
            raise ReservoirError(
                f"cannot download the VGG-19 weights ({error}). Give the path of a copy of "
                f"{VGG19_URL.rsplit('/', 1)[1]} as style.weights, or use style.weights='seeded' "
                "(fixed random filters: not the paper's features)"
            ) from error
    else:
        path = Path(weights).expanduser()
        if not path.is_file():
            raise ReservoirError(
                f"no VGG-19 weights at {path}: give the path of torchvision's vgg19 file, "
                "'torchvision' to download it, or 'seeded' for fixed random filters"
            )
        try:
            if path.suffix == ".safetensors":
                state = read_safetensors(path)
            else:
                state = torch.load(path, map_location="cpu", weights_only=True)
        except ReservoirError:
            raise
        except Exception as error:
            raise ReservoirError(f"{path} cannot be read as a weight file: {error}") from error
    return {key.removeprefix("features."): value for key, value in state.items()}


def _shallow_only(weights: str) -> str:
    """The tail of the message about a missing convolution."""
    if weights != "auto":
        return ""
    return ". It holds the taps up to 7; deeper ones need weights='torchvision' or its file's path"


class StyleEncoder(nn.Module):
    """Turn a batch into one style vector: channel statistics of VGG-19 features before ReLU.

    Example:
        >>> encoder = StyleEncoder(weights="seeded")
        >>> encoder(torch.rand(1, 3, 32, 64)).shape
        torch.Size([320])

    Args:
        weights: ``"torchvision"``, the path of torchvision's file, ``"seeded"``, or ``"auto"``:
            the file that ``tools/get_style_weights.py`` left in the user's cache, if it is there,
            else seeded. The attribute of this name tells which it was.
        taps: Indices into VGG-19's ``features`` (convolutions, so the values before ReLU), or a
            name of ``TAP_SETS``.
        statistic: A name of ``STATISTICS``.
        size: Resize the input to ``(height, width)`` first, for speed.
    """

    def __init__(
        self,
        weights: str = "torchvision",
        taps: Sequence[int] | str = "shallow",
        statistic: str = "logvar",
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        if isinstance(taps, str):
            taps = choose(taps, TAP_SETS, "set of style taps")
        if not taps or not set(taps) <= set(convolution_indices()):
            raise ReservoirError(
                f"style taps {list(taps)} must be convolutions of VGG-19: choose from "
                f"{convolution_indices()}"
            )
        self.taps = tuple(taps)
        self.statistic = choose(statistic, STATISTICS, "style statistic")
        self.size = None if size is None else tuple(size)
        with torch.device("meta"):  # no random initialisation: the weights follow
            self.features = vgg19_features(max(taps))
        self.weights = automatic_weights() if weights == "auto" else weights
        if self.weights == "seeded":
            state = seeded_weights(self.features)
        else:
            state = read_vgg19_weights(self.weights)
        wanted = self.features.state_dict()
        for key, value in wanted.items():
            if key not in state or state[key].shape != value.shape:
                found = tuple(state[key].shape) if key in state else "nothing"
                raise ReservoirError(
                    f"{self.weights} is not torchvision's VGG-19: features.{key} should be "
                    f"{tuple(value.shape)}, found {found}{_shallow_only(weights)}"
                )
        self.features.load_state_dict({key: state[key].float() for key in wanted}, assign=True)
        self.requires_grad_(False).eval()

    @property
    def groups(self) -> list[int]:
        """Lengths of the blocks of a style vector, one per tap."""
        per_channel = 2 if self.statistic is STATISTICS["mean_var"] else 1
        ordered = sorted(self.taps)  # the order in which the features pass them
        return [per_channel * self.features[tap].out_channels for tap in ordered]

    def fingerprint(self) -> dict[str, object]:
        """Everything the style of an image depends on, for the key of a calibration."""
        return {
            "weights": weight_digest(self.features),
            "taps": list(self.taps),
            "statistic": self.statistic.__name__,
            "size": None if self.size is None else list(self.size),
        }

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Style vector ``(d,)`` of ImageNet-normalised images ``(N, 3, H, W)``."""
        if self.features[0].weight.device != images.device:
            self.to(images.device)
        # Statistics of half-precision features would lose the small variances.
        with torch.autocast(images.device.type, enabled=False):
            x = images.float()
            if self.size is not None:
                x = F.interpolate(x, self.size, mode="bilinear", antialias=True)
            styles = []
            for index, layer in enumerate(self.features):
                x = layer(x)
                if index in self.taps:
                    styles.append(self.statistic(x))
        return torch.cat(styles)
