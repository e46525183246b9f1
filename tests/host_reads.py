"""Count how often a step waits for a device, with the CPU in the place of that device."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten
# item(), bool(), float() and int() are the first of these.
_READING = {
    aten._local_scalar_dense.default,
    aten.equal.default,
    aten.nonzero.default,
    aten.masked_select.default,
}


class HostReads(TorchDispatchMode):
    """Within this context, note where the host reads a tensor that is on the device.

    On the device are the given tensors, and whatever is computed from one of them, until it is
    copied by ``cpu()``. All else is on the host, where reading is free.

    Args:
        tensors: The tensors that would be on the device.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()
        self.found: list[str] = []
        """Line and name of the code that read, one per read."""
        # Storages are kept, so that no address is used twice.
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._mark(tensors)
        self._patches = [
            patch.object(Tensor, name, self._reading(getattr(Tensor, name)))
            for name in ("cpu", "numpy", "tolist")
        ]

    def __enter__(self) -> HostReads:
        for each in self._patches:
            each.start()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for each in self._patches:
            each.stop()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        inputs = _tensors((args, kwargs))
        if any(map(self._is_there, inputs)):
            by_mask = func is aten.index.Tensor and any(t.dtype == torch.bool for t in inputs[1:])
            if func in _READING or by_mask:
                self._note()
            written = [args[0]] if func.__name__.split(".")[0].endswith("_") else []
            self._mark(_tensors((result, written)))
        return result

    def _reading(self, method):
        def read(tensor, *args, **kwargs):
            if not self._is_there(tensor):
                return method(tensor, *args, **kwargs)
            self._note()
            copied = tensor.detach().clone()
            del self._storages[copied.untyped_storage().data_ptr()]
            return method(copied, *args, **kwargs)

        return read

    def _is_there(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._storages

    def _mark(self, tensors: Iterable[Tensor]) -> None:
        for storage in (tensor.untyped_storage() for tensor in tensors):
            if storage.nbytes():
                self._storages[storage.data_ptr()] = storage

    def _note(self) -> None:
        lines = [f for f in traceback.extract_stack() if "mmseg_reservoir/" in f.filename]
        where = lines[-1] if lines else traceback.extract_stack()[-3]
        self.found.append(f"{where.filename.split('/')[-1]}:{where.lineno} {where.line}")


def _tensors(tree: object) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
