"""Image style: channel statistics of the first layers of a frozen VGG-19 (paper, Sec. 4.1)."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..core.unfit_images import explain_unfit
from ..errors import ReservoirError
from ..io.checkpoints import read_weights
from ..io.files import shipped
from ..option_types import PositiveFraction
from ..registry import choose, register
from .encoder import Encoder, Size, as_pair, middle, reduced
from .statistics import StatisticOption, find_statistic, length_of, name_of

SHIPPED = "checkpoints/vgg19_front.safetensors"
"""The bundled convolutions; ``checkpoints/README.md`` documents their origin."""
SHIPPED_TAPS = 7
"""The last tap of the bundled convolutions."""

VGG19_URL = "https://download.pytorch.org/models/vgg19-dcbb9e9d.pth"
"""torchvision's file. Its name has the start of the sha256 after the dash."""

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

_VGG19: tuple[int | Literal["M"], ...] = (
    *(64, 64, "M", 128, 128, "M"),
    *(256, 256, 256, 256, "M"),
    *(512, 512, 512, 512, "M") * 2,
)


def convolution_indices() -> list[int]:
    """Return the indices of the convolutions in VGG-19's ``features``, as torchvision counts."""
    kinds = [kind for width in _VGG19 for kind in ("M" if width == "M" else ("conv", "ReLU"))]
    return [index for index, kind in enumerate(kinds) if kind == "conv"]


def vgg19_features(last: int) -> nn.Sequential:
    """Build VGG-19 ``features[0 .. last]`` with torchvision's indices, without torchvision."""
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
    """Return fixed random weights (He-normal), for tests and comparisons.

    Random filters still respond to contrast, color and texture, so styles differ. They are not the
    paper's features.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for index, layer in enumerate(features):
        if isinstance(layer, nn.Conv2d):
            std = (2 / (layer.in_channels * 9)) ** 0.5
            assert layer.bias is not None
            weights[f"{index}.weight"] = std * torch.randn(layer.weight.shape, generator=generator)
            weights[f"{index}.bias"] = 0.05 * torch.randn(layer.bias.shape, generator=generator)
    return weights


def read_vgg19_weights(weights: str) -> dict[str, Tensor]:
    """Read the tensors of a VGG-19, by ``{i}.weight`` and ``{i}.bias``.

    Args:
        weights: Source of the tensors: ``"shipped"``, ``"torchvision"``, or a path (keys
            ``features.{i}.weight``).
    """
    if weights == "torchvision":
        state = download_vgg19()
    else:
        path = shipped(SHIPPED) if weights == "shipped" else Path(weights).expanduser()
        if not path.is_file():
            raise ReservoirError(
                f"no VGG-19 weights at {path}: set reservoir.style.weights to 'shipped', to "
                "'torchvision' to download its file, to the path of a file, or to 'seeded' for "
                "fixed random filters"
            )
        state = read_weights(path)
    return {key.removeprefix("features."): value for key, value in state.items()}


def download_vgg19() -> dict[str, Tensor]:
    """Return torchvision's weights (550 MB), downloaded once and checked by their sha256.

    mmengine's loader would not check the hash.
    """
    try:
        return torch.hub.load_state_dict_from_url(
            VGG19_URL, map_location="cpu", check_hash=True, weights_only=True
        )
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError) as error:  # Runtime: the hash
        raise ReservoirError(
            f"cannot download the VGG-19 weights ({error}): set reservoir.style.weights to the "
            f"path of a copy of {VGG19_URL.rsplit('/', 1)[1]}, or to 'shipped' (the filters of "
            f"the taps up to {SHIPPED_TAPS}, which are bundled)"
        ) from error


@register("style", "vgg")
class StyleEncoder(Encoder):
    """Channel statistics of VGG-19 features before ReLU (paper, Sec. 4.1).

    Example:
        >>> encoder = StyleEncoder()
        >>> encoder(torch.rand(1, 3, 32, 64)).shape
        torch.Size([320])

    Args:
        weights: Source of the filters: ``"shipped"`` (bundled, taps up to 7), ``"torchvision"``
            (download, 550 MB), the path of a VGG-19's file, or ``"seeded"`` (fixed random filters).
            Defaults to ``"shipped"``.
        taps: Indices of convolutions in VGG-19's ``features``, or a name of ``TAP_SETS``. Defaults
            to ``"shallow"``.
        statistic: Name of a style statistic, or a function of features. Defaults to ``"logvar"``.
        size: Size of the images for encoding: ``(height, width)``, the shorter side in pixels
            (without enlarging), or a fraction of both sides, such as 0.5. Smaller is faster.
            Defaults to None, the original size.
        crop: Fraction of both resized sides, around the middle, to encode. Use it for batches of
            many images, not for single frames. Defaults to None, the whole image.
    """

    def __init__(
        self,
        weights: str = "shipped",
        taps: Sequence[int] | str = "shallow",
        statistic: StatisticOption = "logvar",
        size: Size | None = None,
        crop: PositiveFraction | None = None,
    ) -> None:
        super().__init__()
        self.weights = weights
        self.taps = _check_taps(taps, weights)
        self.statistic = find_statistic(statistic)
        self.size = as_pair(size)
        self.crop = crop
        with torch.device("meta"):  # no random initialization: the weights follow
            self.features = vgg19_features(max(self.taps))
        channels = [len(self.features.get_parameter(f"{tap}.bias")) for tap in self.taps]
        self.groups = [length_of(self.statistic, count) for count in channels]
        # Files are read last, when all options are valid.
        seeded = weights == "seeded"
        self._load(seeded_weights(self.features) if seeded else read_vgg19_weights(weights))
        self.requires_grad_(False).eval()

    def _load(self, state: Mapping[str, Tensor]) -> None:
        wanted = self.features.state_dict()
        for key, value in wanted.items():
            if key not in state or state[key].shape != value.shape:
                shape = tuple(state[key].shape) if key in state else "missing"
                raise ReservoirError(
                    f"{self.weights} is not a VGG-19 with the style taps {list(self.taps)}: "
                    f"features.{key} should be {tuple(value.shape)}, is {shape}. Choose other "
                    "reservoir.style.weights, or other taps"
                )
        self.features.load_state_dict({key: state[key].float() for key in wanted}, assign=True)

    def fingerprint(self) -> dict[str, Any]:
        view = {"size": list(self.size) if isinstance(self.size, tuple) else self.size}
        if self.crop is not None:  # older fingerprints have no crop: they stay valid
            view["crop"] = self.crop
        taps = {"taps": list(self.taps), "statistic": name_of(self.statistic)}
        return super().fingerprint() | taps | view

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Return the style vector ``(d,)`` of ImageNet-normalized images ``(N, 3, H, W)``."""
        if self.features[0].weight.device != images.device:
            self.to(images.device)
        # Statistics of half-precision features would lose the small variances.
        with torch.autocast(images.device.type, enabled=False):
            x = images.float()
            if self.size is not None:
                x = reduced(x, self.size)
            if self.crop is not None:
                x = middle(x, self.crop)
            # The layers and the statistics are faster on channels-last memory.
            x = x.contiguous(memory_format=torch.channels_last)
            blocks = []
            with explain_unfit(self, x):
                for index, layer in enumerate(self.features):
                    # In place: allocating the output would take longer than the ReLU itself.
                    x = x.relu_() if isinstance(layer, nn.ReLU) else layer(x)
                    if index in self.taps:
                        # A custom statistic may return a view, which the next ReLU would change.
                        blocks.append(self.statistic(x).clone())
        return torch.cat(blocks)


def _check_taps(taps: Sequence[int] | str, weights: str) -> tuple[int, ...]:
    chosen = choose(taps, TAP_SETS, "set of style taps") if isinstance(taps, str) else taps
    valid = convolution_indices()
    if not isinstance(chosen, Sequence) or not chosen or any(tap not in valid for tap in chosen):
        raise ReservoirError(
            f"style taps {chosen!r} must be convolutions of VGG-19: choose from {valid}, or one of "
            f"the sets {', '.join(TAP_SETS)}"
        )
    in_order = tuple(sorted(set(chosen)))
    if weights == "shipped" and in_order[-1] > SHIPPED_TAPS:
        raise ReservoirError(
            f"style taps {list(in_order)} are not all in the shipped weights: these hold the taps "
            f"up to {SHIPPED_TAPS}; deeper ones need reservoir.style.weights='torchvision' (a "
            "download of 550 MB) or its file's path"
        )
    return in_order
