import argparse
from pathlib import Path

import pytest

from mmseg_reservoir.command_line import (
    add_config_options,
    end_in_one_line,
    find_config,
    parse,
    read_config,
)
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.files import shipped


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "config.py"
    path.write_text('method = dict(type="tent", lr=1.0)\n')
    return path


def test_changes_are_merged_and_must_be_known(file):
    cfg = read_config(file, {"method.lr": 2.0, "device": "cpu"}, known=("device",))
    assert cfg.method == {"type": "tent", "lr": 2.0}
    assert cfg.device == "cpu"
    with pytest.raises(ReservoirError, match=r"no 'methd' \(did you mean 'method'\?\)"):
        read_config(file, {"methd.lr": 2.0})
    with pytest.raises(ReservoirError, match=r"no config file nowhere\.py"):
        read_config("nowhere.py", {})


def test_a_config_is_found_by_its_name_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "minicity/segformer-tiny_tent.py"
    for given in (name, f"configs/{name}"):
        assert find_config(given) == shipped(f"configs/{name}")
    cfg = read_config(name, {"method.optimizer.lr": 7.0})
    assert cfg.method.optimizer.lr == 7
    assert Path(cfg.load_from).is_file()


def test_a_file_here_comes_before_the_shipped_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "minicity/segformer-tiny_tent.py"
    (tmp_path / "minicity").mkdir()
    (tmp_path / name).write_text("a = 1\n")
    assert read_config(name, {}).a == 1


def test_a_config_that_is_nowhere(tmp_path):
    with pytest.raises(ReservoirError, match=r"mean minicity/segformer-tiny_tent\.py\?"):
        find_config("configs/minicity/segformer-tiny_tnt.py")
    with pytest.raises(ReservoirError, match="neither here nor among the shipped ones in "):
        find_config(tmp_path / "minicity/segformer-tiny_tent.py")
    with pytest.raises(ReservoirError, match="no config file"):
        find_config("minicity")


def test_options_of_a_test(file):
    parser = argparse.ArgumentParser()
    add_config_options(parser)
    args = parse(parser, [str(file), "--seed=3", "--cfg-options", "a.b=[1,2]", "c=x"])
    assert (args.seed, args.work_dir) == (3, None)
    assert args.cfg_options == {"a.b": [1, 2], "c": "x"}
    with pytest.raises(ReservoirError, match="--cfg-options takes key=value"):
        parse(parser, [str(file), "--cfg-options", "novalue"])


def test_mistakes_end_in_one_line(capsys):
    def fail():
        raise ReservoirError("Traceback of a worker\nmmseg_reservoir.errors.ReservoirError: bad k")

    assert end_in_one_line(fail) == 2
    assert capsys.readouterr().err == "error: bad k\n"
    assert end_in_one_line(lambda: None) == 0
