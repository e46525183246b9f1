"""mmseg without compiled operators; each case in an interpreter with nothing imported yet."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

lite_only = pytest.mark.skipif(
    importlib.util.find_spec("mmcv._ext") is not None, reason="full mmcv is installed"
)

FAKE_MMCV = "import sys; sys.path.insert(0, {folder!r})\n"


def run(code, **options):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, **options
    )


def last_line(result):
    return result.stderr.strip().splitlines()[-1]


def write_fake_mmcv(folder, extension):
    """A package that looks like full mmcv with the given ``_ext``."""
    for name, text in {"__init__": "", "_ext": extension, "ops": "from mmcv import _ext"}.items():
        path = folder / "mmcv" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


@lite_only
def test_mmseg_imports_and_only_the_call_of_a_compiled_op_fails():
    code = """
import importlib.util, sys, torch
import mmseg_reservoir.seg.compat as compat
import mmseg.models
from mmcv.ops import nms
from mmengine.utils.dl_utils import mmcv_full_available

assert "mmcv._ext" not in sys.modules
assert importlib.util.find_spec("mmcv._ext") is None
assert not mmcv_full_available()
compat.enable_mmseg_without_compiled_ops()
assert "mmcv._ext" not in sys.modules
nms(torch.rand(3, 4), torch.rand(3), 0.5)
"""
    result = run(code)
    assert last_line(result).startswith("NotImplementedError"), result.stderr
    assert "`nms`" in last_line(result)
    assert "install full mmcv (>= 2.0.0, < 2.2.0)" in last_line(result)


def load_compat_alone():
    """Code that imports compat.py without ``seg/__init__.py``, which calls it at once."""
    path = ROOT / "mmseg_reservoir" / "seg" / "compat.py"
    return (
        "import importlib.util as u, sys\n"
        f"spec = u.spec_from_file_location('compat', {str(path)!r})\n"
        "compat = u.module_from_spec(spec); spec.loader.exec_module(compat)\n"
    )


def test_full_mmcv_is_left_alone(tmp_path):
    write_fake_mmcv(tmp_path, extension="nms = 'the real one'")
    code = (
        load_compat_alone()
        + FAKE_MMCV.format(folder=str(tmp_path))
        + "compat.enable_mmseg_without_compiled_ops()\n"
        "import mmcv.ops; print(mmcv.ops._ext.nms)"
    )
    assert run(code, check=True).stdout.strip() == "the real one"


def test_full_mmcv_for_another_torch_is_reported(tmp_path):
    write_fake_mmcv(tmp_path, extension="raise ImportError('undefined symbol: c10')")
    code = (
        load_compat_alone()
        + FAKE_MMCV.format(folder=str(tmp_path))
        + "compat.enable_mmseg_without_compiled_ops()"
    )
    line = last_line(run(code))
    assert line.startswith("ImportError: The compiled operators of mmcv do not load")
    assert "undefined symbol: c10" in line


def test_missing_mmcv_names_the_extra():
    code = (
        load_compat_alone()
        + "find = u.find_spec\n"
        + "u.find_spec = lambda name: None if name == 'mmcv' else find(name)\n"
        + "compat.enable_mmseg_without_compiled_ops()"
    )
    line = last_line(run(code))
    assert line.startswith("ImportError: mmcv is not installed")
    assert 'pip install "mmseg_reservoir[lite]"' in line


def test_mmcv_beside_mmcv_lite_warns(tmp_path):
    write_fake_mmcv(tmp_path, extension="")
    code = (
        load_compat_alone()
        + FAKE_MMCV.format(folder=str(tmp_path))
        + "compat._is_installed = lambda name: True\n"
        "compat.enable_mmseg_without_compiled_ops()"
    )
    assert "mmcv and mmcv-lite are both installed" in run(code, check=True).stderr


def test_the_package_imports_no_transformers_and_leaves_warnings_alone():
    code = """
import sys, warnings
import mmseg_reservoir.seg
from mmengine.registry import OPTIMIZERS

texts = [message.pattern for _, message, *_ in warnings.filters if message is not None]
assert not any(word in text for text in texts for word in ("pkg_resources", "build_loss")), texts
assert "transformers" not in sys.modules
assert ("Adafactor" in OPTIMIZERS) == (importlib.util.find_spec("transformers") is not None)
"""
    result = run("import importlib.util\n" + code)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_adafactor_is_still_that_of_transformers():
    transformers = pytest.importorskip("transformers")
    code = """
import torch
import mmseg_reservoir.seg
from mmengine.optim import build_optim_wrapper

options = dict(type="Adafactor", lr=0.5, relative_step=False)
wrapper = build_optim_wrapper(torch.nn.Linear(2, 2), dict(optimizer=options))
print(type(wrapper.optimizer).__module__, wrapper.optimizer.param_groups[0]["lr"])
"""
    result = run(code)
    told = result.stdout.splitlines()[-1:]
    assert told == [f"{transformers.Adafactor.__module__} 0.5"], result.stderr
