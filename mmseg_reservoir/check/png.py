"""Is a PNG file whole? Decoders differ: some return the part that they could read."""

from __future__ import annotations

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png_fault(data: bytes) -> str | None:
    """What is wrong with the structure of a PNG file; None if nothing is.

    Walks over the chunks and compares their checksums, up to the end mark IEND.
    """
    if not data.startswith(SIGNATURE):
        return "is not a PNG file" if not SIGNATURE.startswith(data) else "is truncated"
    view, at = memoryview(data), len(SIGNATURE)
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if end > len(data):
            break
        if zlib.crc32(view[at + 4 : end - 4]) != struct.unpack_from(">I", data, end - 4)[0]:
            return f"is damaged: wrong checksum at byte {at}"
        if kind == b"IEND":
            return None
        at = end
    return "is truncated"
