import signal
import sys
import warnings
from pathlib import Path

import pytest

from mmseg_reservoir.cli.command_line import Verb, run_cli
from mmseg_reservoir.cli.options import TEST, check_seed
from mmseg_reservoir.config.config_files import find_config, import_custom_modules, read_config
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.files import shipped

VERB = Verb("Test.", lambda args: None, *TEST)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "config.py"
    path.write_text('method = dict(type="tent", lr=1.0)\n')
    return path


def test_changes_are_merged_and_must_be_known(file):
    cfg = read_config(file, {"method.lr": 2.0, "device": "cpu"}, optional=("device",))
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
    with pytest.raises(ReservoirError, match="neither here nor among the bundled ones in "):
        find_config(tmp_path / "minicity/segformer-tiny_tent.py")
    with pytest.raises(ReservoirError, match="no config file"):
        find_config("minicity")


def test_options_of_a_test(file):
    args = VERB.parse([str(file), "--seed=3", "--cfg-options", "a.b=[1,2]", "c=x"])
    assert (args.seed, args.work_dir) == (3, None)
    assert args.cfg_options == {"a.b": [1, 2], "c": "x"}
    with pytest.raises(ReservoirError, match="--cfg-options takes key=value"):
        VERB.parse([str(file), "--cfg-options", "novalue"])


def test_mistakes_end_in_one_line(capsys):
    def fail():
        raise ReservoirError("Traceback of a worker\nmmseg_reservoir.errors.ReservoirError: bad k")

    assert run_cli(fail) == 2
    assert capsys.readouterr().err == "error: bad k\n"
    assert run_cli(lambda: None) == 0
    assert run_cli(lambda: 1) == 1


@pytest.mark.parametrize(
    ("text", "module", "shown"),
    [
        ("pkg_resources is deprecated as an API. See ...", "mmengine.utils.package_utils", False),
        ("pkg_resources is deprecated as an API. See ...", "importlib", False),
        ("pkg_resources is deprecated as an API. See ...", "mmengine_of_others", True),
        ("``build_loss`` would be deprecated soon, please", "mmseg.models.builder", False),
        ("Default ``avg_non_ignore`` is False, if", "mmseg.models.losses.x", False),
        ("Default ``avg_non_ignore`` is False, if", "custom_losses", True),
        ("the loss is not finite", "mmseg.models.builder", True),
    ],
)
def test_known_warnings_of_other_libraries_are_hidden_in_commands(monkeypatch, text, module, shown):
    monkeypatch.setattr(sys, "warnoptions", [])

    def warn():
        warnings.warn_explicit(text, UserWarning, "file.py", 1, module)

    def seen(call):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        return len(caught)

    before = list(warnings.filters)
    assert seen(lambda: run_cli(warn)) == shown
    assert warnings.filters == before
    assert seen(warn) == 1
    monkeypatch.setattr(sys, "warnoptions", ["default"])
    assert seen(lambda: run_cli(warn)) == 1


def ending(error, capsys):
    """Exit code and what is printed if a run ends with an error."""

    def fail():
        raise error

    return run_cli(fail), capsys.readouterr().err


def test_a_worker_that_was_terminated_is_an_interruption_and_other_errors_are_not(capsys):
    code, told = ending(
        RuntimeError("DataLoader worker (pid 7) is killed by signal: Terminated. "), capsys
    )
    assert (code, told.split(":")[0].strip()) == (143, "interrupted")
    with pytest.raises(RuntimeError, match="killed by signal: Killed"):
        ending(RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. "), capsys)


def test_an_error_of_several_lines_keeps_all_of_them_in_one(capsys):
    text = "cannot read x.png (error: OpenCV\n): the file is missing"
    expected = "error: cannot read x.png (error: OpenCV ): the file is missing\n"
    assert ending(ReservoirError(text), capsys) == (2, expected)
    worker = f"Caught it in a worker\nmmseg_reservoir.errors.ReservoirError: {text}"
    assert ending(ReservoirError(worker), capsys) == (2, expected)


def test_a_full_disk_ends_in_one_line(capsys):
    error = OSError(28, "No space left on device", "results.json")
    line = (
        "error: [Errno 28] No space left on device: 'results.json': free some space on the disk, "
    )
    line += "or choose another folder\n"
    assert ending(error, capsys) == (2, line)


def test_an_interruption_ends_in_two_lines(capsys):
    code, told = ending(KeyboardInterrupt(), capsys)
    assert code == 130
    assert told.strip().splitlines() == [
        "interrupted: the run is not finished",
        "what was written so far is in its work directory",
    ]


@pytest.mark.parametrize("turned", [False, True])
def test_sigterm_ends_as_ctrl_c_does(turned, capsys):
    cleaned = []

    def run():
        try:
            signal.raise_signal(signal.SIGTERM)
        except SystemExit:
            if turned:  # as Ray does
                raise SystemExit(1) from None
            raise
        finally:
            cleaned.append(True)

    assert run_cli(run) == 143
    assert capsys.readouterr().err.strip().startswith("interrupted: the run is not finished")
    assert cleaned == [True]


def test_the_exit_of_a_parser_is_none_of_a_signal():
    with pytest.raises(SystemExit, match="2"):
        run_cli(lambda: sys.exit(2))


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a.b=/my data/city one", "a.b", "/my data/city one"),
        ("a = 2", "a", 2),
        ("a= None", "a", None),
        ("a=[fog, light rain , 3]", "a", ["fog", "light rain", 3]),
        ("a=[(x y,1),(z,2)]", "a", [("x y", 1), ("z", 2)]),
        ("a=b=c", "a", "b=c"),
    ],
)
def test_spaces_belong_to_values(file, text, key, value):
    assert VERB.parse([str(file), "--cfg-options", text]).cfg_options == {key: value}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("a = (1,\nb = 2\n", "SyntaxError"),
        ("_base_ = './none.py'\n", "FileNotFoundError"),
        ("a = undefined\n", "NameError"),
    ],
)
def test_a_config_that_cannot_be_read(tmp_path, content, reason):
    path = tmp_path / "broken.py"
    path.write_text(content)
    with pytest.raises(ReservoirError, match=rf"invalid config {path}: {reason}: "):
        read_config(path, {})


@pytest.mark.parametrize("seed", [-1, 2**32, "one", None])
def test_what_is_no_seed(seed):
    check_seed(0)
    with pytest.raises(ReservoirError, match=r"from 0 to 2\*\*32 - 1, got"):
        check_seed(seed)


def test_custom_modules_are_imported_when_the_options_are_known(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "good_part.py").write_text("")
    (tmp_path / "bad_part.py").write_text("raise NameError('router')\n")
    path = tmp_path / "config.py"
    path.write_text("custom_imports = dict(imports=['good_part'])\n")
    cfg = read_config(path, {})
    assert "good_part" not in sys.modules
    import_custom_modules(cfg)
    assert sys.modules.pop("good_part").__file__ == str(tmp_path / "good_part.py")

    cfg = read_config(path, {"custom_imports.imports": ["bad_part"]})
    with pytest.raises(ReservoirError, match=rf"invalid config {path}: NameError: router"):
        import_custom_modules(cfg)
    path.write_text("a = 1\n")
    import_custom_modules(read_config(path, {}))


@pytest.mark.parametrize("package", ["mmpretrain_x", "my_own_x"])
def test_a_package_that_is_missing_is_named(tmp_path, package):
    path = tmp_path / "config.py"
    path.write_text(f"custom_imports = dict(imports='{package}.models')\n")
    with pytest.raises(ReservoirError, match=f"imports {package}, which is not inst") as error:
        import_custom_modules(read_config(path, {}))
    advice = "pip install mmpretrain_x" if package.startswith("mm") else "PYTHONPATH"
    assert advice in str(error.value)


def parsed(option):
    return VERB.parse(["config.py", "--cfg-options", option]).cfg_options


def test_values_may_be_dicts():
    option = 'test_cfg.domains=[{"name": "dusk", "data_root": "my data/dusk"}, "fog"]'
    domains = [{"name": "dusk", "data_root": "my data/dusk"}, "fog"]
    assert parsed(option) == {"test_cfg.domains": domains}


@pytest.mark.parametrize("value", ["[dict(name=a, set=b)]", "{a:b}", "],["])
def test_values_that_cannot_be_read(value):
    with pytest.raises(ReservoirError, match=r"write a dict as '{|brackets in the wrong order"):
        parsed(f"test_cfg.domains={value}")


@pytest.mark.parametrize("key", ["a.0", "a.0.name", "a.9", "a.name", "b.name"])
def test_a_key_that_leads_nowhere(tmp_path, key):
    path = tmp_path / "config.py"
    path.write_text("a = ['fog', 'night']\nb = 3\n")
    with pytest.raises(ReservoirError, match=f"--cfg-options {key}: .*replace a list as a whole"):
        read_config(path, {key: "x"})
