"""Image style: channel statistics of the first layers of a frozen VGG-19 (paper, Sec. 4.1)."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..core.unfit_images import explain_unfit
from ..errors import ReservoirError
from ..io.checkpoints import read_weights
from ..io.files import shipped
from ..registry import choose, register
from .encoder import Encoder
from .image_moments import ImageMoments, pooled
from .statistics import Statistic, find_statistic, length_of, name_of
from .view_size import Size, check_crop, check_size, middle, reduced

SHIPPED = "checkpoints/vgg19_front.safetensors"
"""The convolutions that come with this project; ``checkpoints/README.md`` tells their origin."""
SHIPPED_TAPS = 7
"""The last of them."""

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

_VGG19: tuple[int | Literal["M"], ...] = (
    *(64, 64, "M", 128, 128, "M"),
    *(256, 256, 256, 256, "M"),
    *(512, 512, 512, 512, "M") * 2,
)


def convolution_indices() -> list[int]:
    """Indices of the convolutions in VGG-19's ``features``, as torchvision counts them."""
    kinds = [kind for width in _VGG19 for kind in ("M" if width == "M" else ("conv", "ReLU"))]
    return [index for index, kind in enumerate(kinds) if kind == "conv"]


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
    """Fixed random weights (He-normal), for tests and comparisons.

    Random filters still respond to contrast, colour and texture, so styles can be told apart, but
    they are not the paper's features.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for index, layer in enumerate(features):
        if isinstance(layer, nn.Conv2d):
            std = (2 / (layer.in_channels * 9)) ** 0.5
            assert layer.bias is not None, "the convolutions of VGG-19 have one"
            weights[f"{index}.weight"] = std * torch.randn(layer.weight.shape, generator=generator)
            weights[f"{index}.bias"] = 0.05 * torch.randn(layer.bias.shape, generator=generator)
    return weights


def read_vgg19_weights(weights: str) -> dict[str, Tensor]:
    """The tensors of a VGG-19 by ``{i}.weight`` and ``{i}.bias``.

    Args:
        weights: ``"shipped"``, ``"torchvision"``, or a path (keys ``features.{i}.weight``).
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
    """torchvision's file (550 MB), downloaded once and checked by its sha256.

    Through ``torch.hub``, the loader behind mmengine's, which does not pass the check on.
    """
    try:
        return torch.hub.load_state_dict_from_url(
            VGG19_URL, map_location="cpu", check_hash=True, weights_only=True
        )
    except (OSError, EOFError, RuntimeError, pickle.UnpicklingError) as error:  # Runtime: the hash
        raise ReservoirError(
            f"cannot download the VGG-19 weights ({error}): set reservoir.style.weights to the "
            f"path of a copy of {VGG19_URL.rsplit('/', 1)[1]}, or to 'shipped' (the filters of "
            f"the taps up to {SHIPPED_TAPS}, which come with this project)"
        ) from error


@register("style", "vgg")
class StyleEncoder(Encoder):
    """Turn a batch into one style vector: channel statistics of VGG-19 features before ReLU.

    Example:
        >>> encoder = StyleEncoder()
        >>> encoder(torch.rand(1, 3, 32, 64)).shape
        torch.Size([320])

    Args:
        weights: ``"shipped"`` for the filters that come with this project (taps up to 7),
            ``"torchvision"`` to download its file (550 MB), the path of that file or another
            VGG-19's, or ``"seeded"`` for fixed random filters.
        taps: Indices into VGG-19's ``features`` (convolutions, so the values before ReLU), or a
            name of ``TAP_SETS``.
        statistic: The name of a style statistic, or a function of features.
        size: Look at a smaller copy of the images, for speed: ``(height, width)``; one whole
            number, the length of the shorter side (images that are no larger stay as they are); or
            a share of both sides, such as 0.5. None: the images as they are.
        crop: Of that copy, look at the middle alone: so much of both sides. For batches of many
            images; a frame that comes alone is needed whole. None: all of it.
    """

    pools = True

    def __init__(
        self,
        weights: str = "shipped",
        taps: Sequence[int] | str = "shallow",
        statistic: str | Statistic = "logvar",
        size: Size | None = None,
        crop: float | None = None,
    ) -> None:
        super().__init__()
        self.weights = weights
        self.taps = _check_taps(taps, weights)
        self.statistic = find_statistic(statistic)
        self.size = check_size(size)
        self.crop = check_crop(crop)
        with torch.device("meta"):  # no random initialisation: the weights follow
            self.features = vgg19_features(max(self.taps))
        channels = [len(self.features.get_parameter(f"{tap}.bias")) for tap in self.taps]
        self.groups = [length_of(self.statistic, count) for count in channels]
        # Only now, when all options are known to be right, are files read.
        seeded = weights == "seeded"
        self._load(seeded_weights(self.features) if seeded else read_vgg19_weights(weights))
        self.requires_grad_(False).eval()

    def _load(self, state: Mapping[str, Tensor]) -> None:
        wanted = self.features.state_dict()
        for key, value in wanted.items():
            if key not in state or state[key].shape != value.shape:
                shape = tuple(state[key].shape) if key in state else "nothing"
                raise ReservoirError(
                    f"{self.weights} is not a VGG-19 with the style taps {list(self.taps)}: "
                    f"features.{key} should be {tuple(value.shape)}, found {shape}. Choose other "
                    "reservoir.style.weights, or other taps"
                )
        self.features.load_state_dict({key: state[key].float() for key in wanted}, assign=True)

    def fingerprint(self) -> dict[str, Any]:
        view = {"size": list(self.size) if isinstance(self.size, tuple) else self.size}
        if self.crop is not None:  # styles of before there was a crop are of whole images
            view["crop"] = self.crop
        taps = {"taps": list(self.taps), "statistic": name_of(self.statistic)}
        return super().fingerprint() | taps | view

    def forward(self, images: Tensor) -> Tensor:
        """Style vector ``(d,)`` of ImageNet-normalised images ``(N, 3, H, W)``."""
        return torch.cat(self._at_taps(images, self.statistic))

    def moments(self, images: Tensor) -> list[ImageMoments]:
        return self._at_taps(images, ImageMoments.of)

    def pooled(self, taps: Sequence[ImageMoments]) -> Tensor:
        return torch.cat([pooled(self.statistic, moments) for moments in taps])

    @torch.no_grad()
    def _at_taps(self, images: Tensor, measure: Callable[[Tensor], Any]) -> list[Any]:
        """What is measured of the features at each tap."""
        if self.features[0].weight.device != images.device:
            self.to(images.device)
        # Statistics of half-precision features would lose the small variances.
        with torch.autocast(images.device.type, enabled=False):
            x = images.float()
            if self.size is not None:
                x = reduced(x, self.size)
            if self.crop is not None:
                x = middle(x, self.crop)
            # All that follows is faster where the channels of a pixel lie side by side.
            x = x.contiguous(memory_format=torch.channels_last)
            measured = []
            with explain_unfit(self, x):
                for index, layer in enumerate(self.features):
                    # New memory for as many numbers would take longer than the ReLU itself.
                    x = x.relu_() if isinstance(layer, nn.ReLU) else layer(x)
                    if index in self.taps:
                        value = measure(x)
                        # A statistic of one's own may be a view of what ReLU is about to change.
                        measured.append(value.clone() if isinstance(value, Tensor) else value)
        return measured


def _check_taps(taps: Sequence[int] | str, weights: str) -> tuple[int, ...]:
    """The taps in the order in which the features pass them."""
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
