import hashlib
import json

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.files import shipped
from mmseg_reservoir.registry import find
from mmseg_reservoir.style import vgg as style
from mmseg_reservoir.style.encoder import Encoder
from mmseg_reservoir.style.vgg import TAP_SETS, StyleEncoder, convolution_indices, vgg19_features


@pytest.fixture(scope="module")
def encoder():
    return StyleEncoder("seeded")


def test_equals_an_independent_computation(encoder):
    x = torch.rand(3, 3, 20, 24)
    w = encoder.features.state_dict()
    z0 = F.conv2d(x, w["0.weight"], w["0.bias"], padding=1)
    z2 = F.conv2d(z0.relu(), w["2.weight"], w["2.bias"], padding=1)
    z5 = F.conv2d(F.max_pool2d(z2.relu(), 2), w["5.weight"], w["5.bias"], padding=1)
    z7 = F.conv2d(z5.relu(), w["7.weight"], w["7.bias"], padding=1)
    expected = []
    for z in (z2, z5, z7):
        values = z.transpose(0, 1).flatten(1)
        centred = values - values.mean(1, keepdim=True)
        expected.append((centred.square().sum(1) / (values.shape[1] - 1)).log())
    style = encoder(x)
    assert style.shape == (320,)
    torch.testing.assert_close(style, torch.cat(expected), rtol=1e-4, atol=1e-4)


def test_layer_indices_are_torchvisions():
    convolutions = [0, 2, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25, 28, 30, 32, 34]
    assert convolution_indices() == convolutions
    features = vgg19_features(36)
    assert len(features) == 37
    assert [i for i, m in enumerate(features) if isinstance(m, nn.Conv2d)] == convolutions
    assert [i for i, m in enumerate(features) if isinstance(m, nn.MaxPool2d)] == [4, 9, 18, 27, 36]
    assert len(vgg19_features(7)) == 8


def test_seeded_weights_are_fixed_and_leave_the_global_generator_alone(encoder):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    again = StyleEncoder("seeded")
    assert torch.rand(1) == expected
    assert again.fingerprint() == encoder.fingerprint()


def test_constant_image_is_finite(encoder):
    for value in (0.0, 1.7):
        assert torch.isfinite(encoder(torch.full((1, 3, 16, 16), value))).all()


def test_half_precision_and_autocast_do_not_change_the_statistics(encoder):
    x = torch.rand(1, 3, 16, 16).half()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        style = encoder(x)
    torch.testing.assert_close(style, encoder(x.float()))
    assert style.dtype == torch.float32


def test_contrast_shifts_the_first_tap_by_its_logarithm():
    encoder = StyleEncoder("seeded", taps=[0])
    x = torch.randn(1, 3, 32, 32)
    shift = encoder(2 * x) - encoder(x)
    torch.testing.assert_close(shift, torch.full((64,), 2 * torch.tensor(2.0).log().item()))


def test_resizing_and_deeper_taps():
    encoder = StyleEncoder("seeded", taps=(2, 10), size=(16, 24))
    x = torch.rand(1, 3, 64, 96)
    small = F.interpolate(x, (16, 24), mode="bilinear", antialias=True)
    torch.testing.assert_close(encoder(x), encoder(small))
    assert encoder(x).shape == (64 + 256,)
    assert encoder.fingerprint() != StyleEncoder("seeded", taps=(2, 10)).fingerprint()


def test_a_crop_is_taken_of_the_smaller_copy():
    encoder = StyleEncoder("seeded", size=0.5, crop=0.5)
    plain = StyleEncoder("seeded")
    x = torch.rand(3, 3, 32, 64)
    small = F.interpolate(x, (16, 32), mode="area")[..., 4:12, 8:24]
    torch.testing.assert_close(encoder(x), plain(small))
    assert encoder.fingerprint() != StyleEncoder("seeded", size=0.5).fingerprint()
    assert "crop" not in plain.fingerprint(), "styles of before there was a crop stay valid"


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_reads_torchvisions_file_by_key(tmp_path, encoder, suffix):
    state = {f"features.{k}": v + 1 for k, v in encoder.features.state_dict().items()}
    state["classifier.0.weight"] = torch.zeros(2, 2)
    path = tmp_path / f"vgg19.{suffix}"
    torch.save(state, path) if suffix == "pth" else save_file(state, path)
    loaded = StyleEncoder(str(path)).features.state_dict()
    torch.testing.assert_close(loaded["7.weight"], encoder.features[7].weight + 1)


def test_download_is_checked(monkeypatch, tmp_path, encoder):
    """The official name carries the start of the sha256, which torch.hub compares."""
    state = {f"features.{k}": v for k, v in encoder.features.state_dict().items()}
    file = tmp_path / "file.pth"
    torch.save(state, file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    module = "mmseg_reservoir.style.vgg.VGG19_URL"
    monkeypatch.setattr(module, f"file://{file}".replace("file.pth", f"vgg19-{digest}.pth"))
    file.rename(tmp_path / f"vgg19-{digest}.pth")
    assert StyleEncoder("torchvision").fingerprint() == encoder.fingerprint()
    wrong = tmp_path / "vgg19-00000000.pth"
    (tmp_path / f"vgg19-{digest}.pth").rename(wrong)
    monkeypatch.setattr(module, f"file://{wrong}")
    with pytest.raises(ReservoirError, match=r"invalid hash.*set reservoir\.style\.weights to"):
        StyleEncoder("torchvision")


def test_mistakes_are_explained(tmp_path, monkeypatch):
    with pytest.raises(ReservoirError, match="no VGG-19 weights at"):
        StyleEncoder(str(tmp_path / "none.pth"))
    broken = tmp_path / "broken.pth"
    broken.write_bytes(b"not a checkpoint")
    with pytest.raises(ReservoirError, match="is not a checkpoint"):
        StyleEncoder(str(broken))
    other = tmp_path / "vgg16.pth"
    torch.save({"features.0.weight": torch.zeros(8, 3, 3, 3)}, other)
    with pytest.raises(ReservoirError, match=r"features.0.weight should be \(64, 3, 3, 3\)"):
        StyleEncoder(str(other))
    missing = tmp_path / "vgg19-00000000.pth"
    monkeypatch.setattr("mmseg_reservoir.style.vgg.VGG19_URL", f"file://{missing}")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    with pytest.raises(
        ReservoirError, match=r"cannot download.*reservoir\.style\.weights.*shipped"
    ):
        StyleEncoder("torchvision")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(taps=[3]), r"taps \[3\].*choose from \[0, 2, 5"),
        (dict(taps=[]), "taps"),
        (dict(taps=7), "taps must be a list, each a whole number, or a string, got 7"),
        (dict(taps="shalow"), r"unknown set of style taps 'shalow'.*'shallow'"),
        (dict(statistic="std"), r"unknown style statistic 'std'.*logvar"),
        (dict(statistic=3), "statistic must be a string, or a function, got 3"),
        (dict(statistic=lambda x: x), r"'<lambda>' returns \(2, 64, 8, 8\).*return one vector"),
        (dict(size=1.5), r"size must be \(height, width\)"),
        (dict(size=(0, 16)), r"size must be \(height, width\)"),
        (dict(crop=2), r"crop must be a number in"),
    ],
)
def test_options_are_checked_before_anything_is_read(monkeypatch, options, message):
    monkeypatch.setattr(style, "read_vgg19_weights", lambda weights: pytest.fail("it read"))
    with pytest.raises(ReservoirError, match=message):
        StyleEncoder(**options)


def test_tap_sets_have_the_papers_names():
    assert TAP_SETS["shallow"] == (2, 5, 7)
    assert TAP_SETS["mixed-1"] == (2, 5, 7, 10, 12, 14, 16)
    assert TAP_SETS["mixed-2"] == (19, 21, 23, 25, 28, 30, 32, 34)
    assert len(TAP_SETS["mixed-3"]) == 15
    assert TAP_SETS["mixed-4"] == (2, 5, 7, 28, 30, 32, 34)
    encoder = StyleEncoder("seeded", taps="middle-1", size=(32, 32))
    assert encoder(torch.rand(1, 3, 32, 32)).shape == (4 * 256,)


@pytest.mark.parametrize(("statistic", "dim"), [("mean", 320), ("mean_var", 640), ("gram", 320)])
def test_other_statistics(statistic, dim):
    encoder = StyleEncoder("seeded", statistic=statistic)
    assert encoder(torch.rand(2, 3, 16, 16)).shape == (dim,)
    assert encoder.fingerprint() != StyleEncoder("seeded").fingerprint()


def test_a_statistic_of_the_users_own():
    def quantiles(features):
        values = features.transpose(0, 1).flatten(1)
        return values.quantile(torch.tensor([0.2, 0.5, 0.8]), dim=1).flatten()

    torch.manual_seed(5)
    state = torch.get_rng_state()
    encoder = StyleEncoder("seeded", taps=[5, 2, 5], statistic=quantiles)
    assert torch.equal(torch.get_rng_state(), state)
    assert encoder.groups == [3 * 64, 3 * 128]
    assert len(encoder(torch.rand(1, 3, 16, 16))) == sum(encoder.groups)
    assert encoder.fingerprint()["statistic"] == "quantiles"


def test_the_shipped_filters_are_the_default(monkeypatch):
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", None)
    encoder = StyleEncoder()
    assert encoder.weights == "shipped"
    assert encoder.groups == [64, 128, 128]
    assert encoder.fingerprint() == StyleEncoder(str(shipped(style.SHIPPED))).fingerprint()
    assert encoder.fingerprint() != StyleEncoder("seeded").fingerprint()
    json.dumps(encoder.fingerprint())
    with pytest.raises(ReservoirError, match=r"taps up to 7; deeper ones need reservoir.style.wei"):
        StyleEncoder(taps="mixed-1")


def test_the_shipped_filters_take_colours_in_imagenets_deviations():
    """In grey levels from 0 to 255, as the original network takes them, it would be 1/57 of it."""
    first = StyleEncoder().features[0]
    mean = torch.zeros(1, 3, 8, 8)
    for channel in range(3):
        colour = mean.clone()
        colour[:, channel] = 1
        assert 1 < float((first(colour) - first(mean)).abs().max()) < 20


def test_is_an_encoder_for_imagenet_images():
    assert find("style", "vgg") is StyleEncoder
    assert issubclass(StyleEncoder, Encoder)
    assert StyleEncoder.sees == "imagenet"
