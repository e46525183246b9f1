import json

import torch

from mmseg_reservoir.cls.backbones import trained
from mmseg_reservoir.io.files import read_tensors
from tools import train_digits


def test_it_stores_both_networks_and_tells_their_error(tmp_path, monkeypatch, capsys):
    calls = []
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(trained, "train", lambda net, data, **options: calls.append(options))
    assert train_digits.main([f"--out={tmp_path}"]) == 0
    assert calls == list(trained.RECIPES.values())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(trained.NETS)
    for name, line in zip(trained.NETS, lines, strict=True):
        path = tmp_path / f"{name}.safetensors"
        assert json.loads(read_tensors(path)[1]["about"])["net"] == name
        assert line.startswith(f"{name}: ")
        assert line.endswith(f" % error on clean test digits, {path}")
