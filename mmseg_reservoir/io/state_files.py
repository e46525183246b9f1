"""Files of saved states: whole or refused, readable by anybody, never a pickle.

A state is nested dicts, lists and tuples of tensors and plain values. It becomes one
``.safetensors`` file: the tensors under plain names, and in the metadata, as strict JSON, the tree
that refers to them. A sha256 over all bytes of the file tells whether one of them has changed.
"""

from __future__ import annotations

import hashlib
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
from .files import atomic_write

SCHEMA = 2
"""To be raised when a state is arranged in another way: an older one is refused, not guessed at."""

_FORMAT = "mmseg_reservoir.state"
_BLANK = "0" * 64
"""Stands in the place of the digest while that is computed."""
_DIGEST_KEY = b'"sha256":"'
"""Before the digest. Within the texts of the metadata quotes are escaped: it stands there once."""
TO_DO = "use the state before it (--resume PATH), or begin anew (--overwrite)"


class DamagedStateError(ReservoirError):
    """A file that is not, or no longer, what was written; another one may be whole.

    Args:
        path: The file.
        what: What is wrong with it, as the rest of a sentence that begins with the path.
    """

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} {what}: {TO_DO}")
        self.path, self.what = path, what


def write_state(path: str | os.PathLike, state: Any, header: Mapping[str, Any]) -> Path:
    """Write a state, all of it or nothing.

    Tensors that share their memory still do when they are read; their devices and gradients are
    not kept.

    Args:
        path: The file, ``.safetensors``.
        state: Nested dicts, lists and tuples of tensors, strings, numbers, booleans and None.
            Any of these but lists and dicts may be a key.
        header: What the state is of, as JSON values: to be looked at before it is used.
    """
    tensors = _Tensors()
    tree = _encode(state, (), tensors)
    try:
        texts = {"header": _strict(dict(header)), "tree": _strict(tree)}
    except (TypeError, ValueError) as error:
        raise ReservoirError(f"the header of a state must be plain JSON values: {error}") from error
    about = {"format": _FORMAT, "schema": str(SCHEMA), "version": __version__, "sha256": _BLANK}
    data = save(tensors.by_name, {**about, **texts})
    digest = hashlib.sha256(data).hexdigest().encode()
    place = data.index(_DIGEST_KEY + _BLANK.encode()) + len(_DIGEST_KEY)

    def write(partial: Path) -> None:
        with partial.open("wb") as file:
            view = memoryview(data)  # which may be gigabytes: no second copy
            file.writelines([view[:place], digest, view[place + len(digest) :]])

    return atomic_write(path, write)


def read_state(path: str | os.PathLike) -> tuple[Any, dict[str, Any]]:
    """The state and the header of a file of :func:`write_state`, tensors on the CPU.

    Raises:
        DamagedStateError: If the file is damaged, or something else.
        ReservoirError: If it is missing, or of another schema.
    """
    path = Path(path).expanduser()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ReservoirError(
            f"the state {path} cannot be read ({error.strerror}): check the path"
        ) from error
    about = _read_about(path, data)
    if about["schema"] != str(SCHEMA):
        raise ReservoirError(
            f"{path} was written by mmseg_reservoir {about.get('version')} with schema "
            f"{about['schema']} of saved states, this version reads schema {SCHEMA}: go on with "
            "the version that wrote it, or begin anew (--overwrite)"
        )
    try:
        tensors = load(data)
        tree, header = json.loads(about["tree"]), json.loads(about["header"])
        return _decode(tree, tensors), header
    except (SafetensorError, ValueError, LookupError, TypeError, RecursionError) as error:
        what = f"is not arranged as a state ({type(error).__name__}: {error})"
        raise DamagedStateError(path, what) from error


def _read_about(path: Path, data: bytes) -> dict[str, str]:
    """The metadata, if the file is a state and each of its bytes is what was written."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        start = data[8 : 8 + length]
        about = json.loads(start)["__metadata__"]
        kind, digest = about["format"], about["sha256"].encode("ascii")
        place = start.index(_DIGEST_KEY + digest) + len(_DIGEST_KEY) + 8
        about["schema"], about["tree"], about["header"]
    except (ValueError, LookupError, TypeError, AttributeError, struct.error, RecursionError) as e:
        raise DamagedStateError(path, "is cut short, or not a saved state at all") from e
    if kind != _FORMAT:
        raise DamagedStateError(path, f"is of the format {kind!r}, not a saved state")
    view = memoryview(data)
    found = hashlib.sha256(view[:place])
    found.update(_BLANK.encode())
    found.update(view[place + len(digest) :])
    if found.hexdigest().encode() != digest:
        raise DamagedStateError(path, "is damaged (its sha256 is not that of what was written)")
    return about


class _Tensors:
    """Gathers tensors for a file: what is one piece of memory gets one name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Tensor] = {}
        self._names: dict[tuple, str] = {}
        self._storages: set[int] = set()

    def name(self, tensor: Tensor, path: tuple) -> str:
        """Take a tensor that stands at this path of the tree; returns its name."""
        # Nothing is shared by tensors without elements, which all have the address 0.
        address = tensor.data_ptr() or id(tensor)
        memory = (address, tensor.dtype, tensor.device, tensor.shape, tensor.stride())
        if memory not in self._names:
            # A number first, as two paths may look alike.
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
    """As JSON: an object there is always one tag with what it marks."""
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
