import json

import nvlabs_segformer as nvlabs
import pytest
import torch
from mmengine.config import Config
from safetensors import safe_open
from stream_run import CONFIGS, TINY, data_options

from mmseg_reservoir.cli import convert
from mmseg_reservoir.cli import test as test_tta
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg.checkpoint import load

META = {"CLASSES": ("road", "sky"), "PALETTE": [[128, 64, 128], [70, 130, 180]], "iter": 160000}


@pytest.fixture
def config(tmp_path):
    """The config for B5, made tiny."""
    cfg = Config.fromfile(CONFIGS / "_base_/models/segformer_mit-b5_nvlabs.py")
    cfg.merge_from_dict({"model": nvlabs.TINY_CONFIG})
    cfg.dump(tmp_path / "tiny.py")
    return tmp_path / "tiny.py"


@pytest.fixture
def source(tmp_path):
    """NVlabs' file, made tiny, as their training saves it: optimizer included."""
    checkpoint = {"meta": META, "state_dict": nvlabs.random_weights(nvlabs.TINY)}
    torch.save({**checkpoint, "optimizer": {"state": {}}}, tmp_path / "nvlabs.pth")
    return tmp_path / "nvlabs.pth"


def run(*command):
    return convert.main([str(word) for word in command])


def fail(capsys, *command) -> str:
    """Run a command that must end with code 2; returns the one line it says."""
    assert run(*command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("layout", ["auto", "nvlabs"])
def test_both_formats_hold_the_same_weights_and_classes(capsys, source, config, tmp_path, layout):
    for name in ("out/a.pth", "out/a.safetensors"):
        assert run(source, tmp_path / name, "--config", config, "--layout", layout) == 0
    out = capsys.readouterr().out
    assert "decode_head.conv_seg.weight, decode_head.conv_seg.bias" in out
    assert f"{len(load(tmp_path / 'out/a.pth')['state_dict'])} tensors written" in out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"a.pth", "a.safetensors"}

    pth = load(tmp_path / "out/a.pth")
    assert set(pth) == {"meta", "state_dict"}
    about = {"classes": ["road", "sky"], "palette": META["PALETTE"]}
    assert pth["meta"]["dataset_meta"] == about
    other = load(tmp_path / "out/a.safetensors")["state_dict"]
    assert other.keys() == pth["state_dict"].keys()
    assert all(torch.equal(other[n], tensor) for n, tensor in pth["state_dict"].items())
    with safe_open(tmp_path / "out/a.safetensors", "pt") as file:
        assert {key: json.loads(text) for key, text in file.metadata().items()} == about


def test_converted_file_goes_through_a_strict_run(capfd, source, config, minicity, tmp_path):
    """Weights that call everything vegetation, and a run that finds them in the model."""
    checkpoint = torch.load(source, weights_only=True)
    bias = torch.where(torch.arange(19) == 8, 1e4, 0.0)
    checkpoint["state_dict"]["decode_head.linear_pred.bias"] = bias
    torch.save(checkpoint, source)
    weights = tmp_path / "converted.pth"
    assert run(source, weights, "--config", config) == 0

    cfg = Config.fromfile(TINY / "segformer-tiny_tent.py")
    model = Config.fromfile(config).model
    model.data_preprocessor = cfg.model.data_preprocessor
    cfg.model = model
    cfg.dump(tmp_path / "run.py")
    command = [tmp_path / "run.py", weights, f"--work-dir={tmp_path / 'w'}", "--cfg-options"]
    command += [*data_options(minicity), "test_cfg.rounds=1", "test_cfg.domains=[fog]"]
    assert "StrictCheckpointHook" in {hook.type for hook in cfg.custom_hooks}
    assert test_tta.main([str(word) for word in command]) == 0
    (visit,) = json.loads((tmp_path / "w/results.json").read_text())["visits"]
    scores = visit["per_class"]
    assert scores["vegetation"] > 0
    assert all(not score for name, score in scores.items() if name != "vegetation")

    # The file as NVlabs made it does not get that far.
    command[1] = source
    assert test_tta.main([*map(str, command), "--overwrite"]) == 2
    assert "The checkpoint does not fit the model" in capfd.readouterr().err


def test_wrong_files_are_named(capsys, source, tmp_path, tiny_model):
    out, wrong = tmp_path / "out.pth", tmp_path / "wrong.pth"
    assert "no checkpoint file" in fail(capsys, tmp_path / "none.pth", out)
    weights = nvlabs.random_weights(nvlabs.TINY)
    imagenet = {n.removeprefix("backbone."): t for n, t in weights.items() if "backbone" in n}
    torch.save({**imagenet, "head.weight": torch.zeros(1000, 64)}, wrong)
    assert "a backbone alone, such as the ImageNet weights" in fail(capsys, wrong, out)
    torch.save({"state_dict": tiny_model.state_dict()}, wrong)
    assert "needs no conversion: give it to 'reservoir test' as it is" in fail(capsys, wrong, out)
    line = fail(capsys, wrong, out, "--layout", "nvlabs")
    assert "the checkpoint's layout is mmseg0" in line
    line = fail(capsys, source, out, "--layout=mmseg0")
    assert "the checkpoint's layout is nvlabs" in line
    assert not out.exists()


def test_wrong_model_is_named(capsys, source, config, tmp_path):
    out = tmp_path / "out.pth"
    line = fail(capsys, source, out)  # the default is B5
    assert "another MiT (1-2-1-1 blocks, width 8), the config's model MiT-B5" in line
    assert "no config file none.py" in fail(capsys, source, out, "--config", "none.py")
    runtime = CONFIGS / "_base_/runtime.py"
    assert "runtime.py has no model" in fail(capsys, source, out, "--config", runtime)
    cfg = Config.fromfile(config)
    cfg.model.decode_head.num_classes = 150
    cfg.dump(tmp_path / "ade.py")
    line = fail(capsys, source, out, "--config", tmp_path / "ade.py")
    assert "decode_head.conv_seg.weight: (19, 12, 1, 1) in the checkpoint, (150, 12, 1, 1)" in line
    assert not out.exists()
    assert run(source, out, "--no-check") == 0
    assert "not checked" in capsys.readouterr().out


def test_output_is_not_replaced_by_mistake(capsys, source, config, tmp_path):
    before = source.read_bytes()
    assert "exists: name another file" in fail(capsys, source, source, "--config", config)
    assert source.read_bytes() == before
    assert "must end in .pth or .safetensors" in fail(capsys, source, tmp_path / "out.bin")
    out = tmp_path / "out.pth"
    out.write_text("old")
    assert run(source, out, "--config", config, "--overwrite") == 0
    assert len(load(out)["state_dict"]) > 100


def test_mmseg_checkpoint_can_be_rewritten(source, tmp_path, tiny_model):
    state = tiny_model.state_dict()
    torch.save({"meta": META, "state_dict": state, "optimizer": {}}, source)
    tiny = CONFIGS / "_base_/models/segformer_tiny.py"
    assert run(source, tmp_path / "out.pth", "--layout=mmseg0", "--config", tiny) == 0
    written = load(tmp_path / "out.pth")
    assert set(written) == {"meta", "state_dict"}
    assert written["meta"]["dataset_meta"]["classes"] == ["road", "sky"]
    assert all(torch.equal(written["state_dict"][n], tensor) for n, tensor in state.items())


def test_a_bundled_config_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "_base_/models/segformer_mit-b5_nvlabs.py"
    monkeypatch.setattr(convert, "read_config", lambda path, changes: {"path": path})
    with pytest.raises(ReservoirError, match="has no model: give --config a whole config"):
        convert.model_shapes(convert.find_config(name))
