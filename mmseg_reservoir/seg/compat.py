"""Make ``import mmseg`` fast, and possible with ``mmcv-lite``, which has no compiled operators.

mmsegmentation imports all of ``mmcv.ops``, which needs the extension ``mmcv._ext``. Many models,
such as SegFormer, call none of its operators, and full ``mmcv`` has no wheels for current torch.
So the operators fail when they are *called*, not when they are imported.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

_EXTENSION = "mmcv._ext"


def enable_mmseg_without_compiled_ops() -> None:
    """Make ``mmcv.ops`` importable; must run before anything imports mmseg.

    Nothing changes if full mmcv is installed or ``mmcv.ops`` is imported already.

    Raises:
        ImportError: If mmcv is missing, or its compiled operators do not fit this torch.
    """
    if "mmcv.ops" in sys.modules:
        return
    if importlib.util.find_spec("mmcv") is None:
        raise ImportError(
            'mmcv is not installed: run `pip install "mmseg_reservoir[lite]"`, or, if your model '
            "needs compiled operators, install full mmcv (>= 2.0.0, < 2.2.0)."
        )
    if _is_installed("mmcv") and _is_installed("mmcv-lite"):
        warnings.warn(
            "mmcv and mmcv-lite are both installed and overwrite each other's files: uninstall "
            "both, then install one of them.",
            stacklevel=2,
        )
    if importlib.util.find_spec(_EXTENSION) is not None:
        try:
            importlib.import_module(_EXTENSION)
        except ImportError as error:
            raise ImportError(
                f"The compiled operators of mmcv do not load with this torch ({error}): install an "
                "mmcv (>= 2.0.0, < 2.2.0) that was built for it, or uninstall mmcv and run "
                '`pip install "mmseg_reservoir[lite]"`.'
            ) from error
        return
    sys.modules[_EXTENSION] = _ExtensionStub(_EXTENSION)
    try:
        importlib.import_module("mmcv.ops")
    finally:
        # mmengine takes this module as a sign that the operators exist.
        del sys.modules[_EXTENSION]


def import_mmengine_without_transformers() -> None:
    """Import mmengine's optimizers without the slow import of transformers.

    If transformers is installed, mmengine imports it to register the optimizer Adafactor.
    Adafactor can still be built; this imports transformers.
    """
    is_decided = "mmengine.optim" in sys.modules or "transformers" in sys.modules
    if is_decided or importlib.util.find_spec("transformers") is None:
        return
    sys.modules["transformers"] = None  # type: ignore[assignment]  # makes its import fail
    try:
        registry = importlib.import_module("mmengine.optim").OPTIMIZERS
    finally:
        del sys.modules["transformers"]
    registry.register_module("Adafactor", module=_adafactor)


def _adafactor(params: Any, **options: Any) -> Any:
    from transformers import Adafactor

    return Adafactor(params, **options)


class _ExtensionStub(types.ModuleType):
    """A replacement of ``mmcv._ext`` that has every operator while ``mmcv.ops`` is imported."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):  # e.g. `__path__`: read by the import system, not by mmcv
            raise AttributeError(name)

        def missing_op(*args: object, **kwargs: object) -> None:
            raise NotImplementedError(
                f"The model calls the compiled operator `{name}`, which mmcv-lite does not have: "
                "uninstall mmcv-lite and install full mmcv (>= 2.0.0, < 2.2.0) built for this "
                "torch, or choose a model that does not need it."
            )

        return missing_op


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
