"""The commands of an installed package: each runs the ``main()`` of a file in ``tools/``.

    reservoir-test minicity/segformer-tiny_tent.py

is ``python tools/test_tta.py configs/minicity/segformer-tiny_tent.py``, from any folder. Which
command calls what stands in ``setup.py``. The demonstrations have none: they need a checkout.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType

from ..io.files import shipped


def load_tool(name: str) -> ModuleType:
    """Import a file of ``tools/``, which is no package once it is installed."""
    path = shipped(f"tools/{name}.py")
    spec = importlib.util.spec_from_file_location(f"mmseg_reservoir_tools.{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses and pickle look for it
    spec.loader.exec_module(module)
    return module


def _command(tool: str) -> Callable[..., int | None]:
    def run(argv: list[str] | None = None) -> int | None:
        return load_tool(tool).main(argv)

    return run


adapt = _command("adapt")
check_dataset = _command("check_dataset")
convert_checkpoint = _command("convert_checkpoint")
figures = _command("figures")
fleet = _command("fleet")
make_minicity = _command("make_minicity")
report = _command("report")
reservoir = _command("reservoir")
summarize = _command("summarize")
sweep = _command("sweep")
test = _command("test_tta")
test_cls = _command("test_cls")
train = _command("train")
warmup = _command("warmup")
