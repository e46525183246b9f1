"""Files of saved states, without pickle. Damaged files are refused.

A state consists of nested dicts, lists and tuples of tensors and plain values. Its ``.safetensors``
file has the tensors by name. The metadata has the tree, which refers to these names, as strict
JSON. A sha256 over all bytes shows whether the file is damaged.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from .. import __version__
from ..errors import ReservoirError
from .files import atomic_write, digest

SCHEMA = 2
"""Version of the format of states. Increase it when the format changes; older files are refused."""

_FORMAT = "mmseg_reservoir.state"
_BLANK = "0" * 64
"""Placeholder of the digest while the digest is computed."""
_DIGEST_KEY = b'"sha256":"'
"""Text before the digest. It is unique, because quotes in metadata are escaped."""
TO_DO = "use the state before it (--resume PATH), or start again (--overwrite)"


class DamagedStateError(ReservoirError):
    """A file is damaged or is not a saved state. An older file may be complete.

    Args:
        path: The file.
        what: The fault, as the rest of a sentence that begins with the path.
    """

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} {what}: {TO_DO}")
        self.path, self.what = path, what


def write_state(path: str | os.PathLike, state: Any, header: Mapping[str, Any]) -> Path:
    """Write a state completely or not at all.

    Tensors that share memory share it again after reading. Devices and gradients are not stored.

    Args:
        path: File with the suffix ``.safetensors``.
        state: Nested dicts, lists and tuples of tensors, strings, numbers, booleans and None. Keys
            may be any of these except lists and dicts.
        header: Description of the state as JSON values, to check before the state is used.
    """
    tensors = _Tensors()
    tree = _encode(state, (), tensors)
    try:
        texts = {"header": _strict(dict(header)), "tree": _strict(tree)}
    except (TypeError, ValueError) as error:
        raise ReservoirError(f"the header of a state must be plain JSON values: {error}") from error
    fields = {"format": _FORMAT, "schema": str(SCHEMA), "version": __version__, "sha256": _BLANK}
    data = save(tensors.by_name, {**fields, **texts})
    checksum = digest([data]).encode()
    start = data.index(_DIGEST_KEY + _BLANK.encode()) + len(_DIGEST_KEY)

    def write(partial: Path) -> None:
        with partial.open("wb") as file:
            view = memoryview(data)  # no copy of the data, which may be gigabytes
            file.writelines([view[:start], checksum, view[start + len(checksum) :]])

    return atomic_write(path, write)


def read_state(path: str | os.PathLike) -> tuple[Any, dict[str, Any]]:
    """Return state and header from a file of :func:`write_state`, with tensors on the CPU.

    Raises:
        DamagedStateError: If the file is damaged or no saved state.
        ReservoirError: If it is missing or has another schema.
    """
    path = Path(path).expanduser()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ReservoirError(
            f"the state {path} cannot be read ({error.strerror}): check the path"
        ) from error
    fields = _read_fields(path, data)
    if fields["schema"] != str(SCHEMA):
        raise ReservoirError(
            f"{path} was written by mmseg_reservoir {fields.get('version')} with schema "
            f"{fields['schema']} of saved states, this version reads schema {SCHEMA}: resume with "
            "the version that wrote it, or start again (--overwrite)"
        )
    try:
        tensors = load(data)
        tree, header = json.loads(fields["tree"]), json.loads(fields["header"])
        return _decode(tree, tensors), header
    except (SafetensorError, ValueError, LookupError, TypeError, RecursionError) as error:
        what = f"is not arranged as a state ({type(error).__name__}: {error})"
        raise DamagedStateError(path, what) from error


def _read_fields(path: Path, data: bytes) -> dict[str, str]:
    """Return the metadata of a state file after a check of its digest."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        head = data[8 : 8 + length]
        fields = json.loads(head)["__metadata__"]
        kind, checksum = fields["format"], fields["sha256"]
        start = head.index(_DIGEST_KEY + checksum.encode("ascii")) + len(_DIGEST_KEY) + 8
        fields["schema"], fields["tree"], fields["header"]
    except (ValueError, LookupError, TypeError, AttributeError, struct.error, RecursionError) as e:
        raise DamagedStateError(path, "is cut short, or not a saved state at all") from e
    if kind != _FORMAT:
        raise DamagedStateError(path, f"is of the format {kind!r}, not a saved state")
    view = memoryview(data)
    if digest([view[:start], _BLANK.encode(), view[start + len(checksum) :]]) != checksum:
        raise DamagedStateError(path, "is damaged (its sha256 is not that of what was written)")
    return fields


class _Tensors:
    """The tensors of a file by name. Equal tensors in the same memory have one name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Tensor] = {}
        self._names: dict[tuple, str] = {}
        self._storages: set[int] = set()

    def name(self, tensor: Tensor, path: tuple) -> str:
        """Add the tensor at this path of the tree, and return its name."""
        # Tensors without elements all have the address 0 although they share no memory.
        address = tensor.data_ptr() or id(tensor)
        memory = (address, tensor.dtype, tensor.device, tensor.shape, tensor.stride())
        if memory not in self._names:
            # The number makes names unique, because two paths may have the same text.
            name = ".".join(map(str, (len(self._names), *path)))
            name = name.encode("ascii", "backslashreplace").decode()
            plain = tensor.detach().cpu().contiguous()
            storage = plain.untyped_storage().data_ptr()
            # safetensors refuses tensors that overlap.
            self.by_name[name] = plain.clone() if storage in self._storages else plain
            self._storages.add(storage)
            self._names[memory] = name
        return self._names[memory]


def _encode(value: Any, path: tuple, tensors: _Tensors) -> Any:
    """Return a value as JSON, in which every object has one tag with its content."""
    kind = type(value)
    if isinstance(value, Tensor):
        return {"tensor": tensors.name(value, path)}
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if kind is list:
        return [_encode(part, (*path, i), tensors) for i, part in enumerate(value)]
    if kind is tuple:
        return {"tuple": [_encode(part, (*path, i), tensors) for i, part in enumerate(value)]}
    if isinstance(value, dict):
        pairs = [
            [_encode(key, (*path, "key"), tensors), _encode(part, (*path, key), tensors)]
            for key, part in value.items()
        ]
        return {"dict": pairs}
    where = ".".join(map(str, path)) or "its root"
    raise ReservoirError(
        f"a state cannot hold the {kind.__name__} at {where}: state_dict() must give tensors, "
        "plain numbers, strings, booleans, None, dicts, lists and tuples"
    )


def _decode(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Undo :func:`_encode`."""
    if isinstance(value, list):
        return [_decode(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    ((tag, part),) = value.items()
    if tag == "tensor":
        return tensors[part]
    if tag == "float":
        return float(part)
    if tag == "tuple":
        return tuple(_decode(part, tensors))
    if tag == "dict":
        return {_decode(key, tensors): _decode(item, tensors) for key, item in part}
    raise ValueError(f"unknown tag {tag!r}")


def _strict(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
