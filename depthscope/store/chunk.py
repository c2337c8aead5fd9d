"""A chunk of an array, to and from the bytes of its file.

Chunks are encoded here and not through zarr: zarr's own writer needs an executor, which is gone once the
interpreter shuts down, and reads a partial chunk back before it rewrites it. What comes out is the same file
(tests compare both ways). Decoding trusts nothing: a chunk says how large it becomes, and that has to be what
the array's metadata says before a byte is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
from numcodecs import blosc  # type: ignore[import-untyped]

from depthscope.store.codec import Codec

Array = npt.NDArray[Any]
_HEADER = struct.Struct("<BBBBIII")
_CHECKSUM = struct.Struct("<I")
LARGEST_CHUNK = 2**30
LARGEST_RATIO = 5000
"""No chunk unpacks to more than so many times its size: blosc reaches about 1,200 on constant data."""


def chunk_name(chunk: int, shape: tuple[int, ...]) -> str:
    """Return the file name of a chunk of rows; `shape` is that of one row."""
    return ".".join(["c", str(chunk), *("0" for _ in shape)])


def encode_chunk(values: Array, codec: Codec) -> bytes:
    """Compress a whole chunk. In a thread other than the main one, the interpreter is free meanwhile."""
    values = np.ascontiguousarray(values)
    encoded: bytes = blosc.compress(values, codec.name.encode(), codec.level, blosc.SHUFFLE)
    return encoded + _CHECKSUM.pack(google_crc32c.value(encoded)) if codec.checksum else encoded


def decode_chunk(content: bytes, shape: tuple[int, ...], dtype: np.dtype[Any], *, checksum: bool) -> Array:
    """Return the chunk of exactly this shape; ValueError when the bytes are not one, or not those written."""
    expected = prod(shape) * dtype.itemsize
    if expected > LARGEST_CHUNK:
        raise ValueError(f"a chunk of shape {shape} would take {expected} bytes")
    if len(content) < _HEADER.size + (_CHECKSUM.size if checksum else 0):
        raise ValueError(f"a chunk file is {len(content)} bytes long")
    if checksum:
        content, expected_sum = content[: -_CHECKSUM.size], content[-_CHECKSUM.size :]
        if _CHECKSUM.pack(google_crc32c.value(content)) != expected_sum:
            raise ValueError("a chunk's bytes do not fit their checksum")
    *_, unpacked, _, packed = _HEADER.unpack_from(content)
    if packed != len(content):
        raise ValueError(f"a chunk file is {len(content)} bytes long, its header says {packed}")
    if unpacked != expected:
        raise ValueError(f"a chunk unpacks to {unpacked} bytes, its array's metadata says {expected}")
    values = np.empty(shape, dtype)
    try:
        blosc.decompress(content, values)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"a chunk does not unpack ({error})") from None
    return values


def encode_texts(texts: Sequence[str]) -> bytes:
    """Encode strings as zarr's vlen-utf8 does: their count, then length and bytes of each."""
    words = [text.encode() for text in texts]
    return struct.pack("<I", len(words)) + b"".join(struct.pack("<I", len(word)) + word for word in words)


def decode_texts(content: bytes, count: int) -> list[str]:
    """Return `count` strings; ValueError when the bytes do not hold exactly these."""
    position, texts = 4, []
    if len(content) < 4 or struct.unpack_from("<I", content)[0] != count:
        raise ValueError(f"a chunk of labels does not hold {count} of them")
    for _ in range(count):
        if position + 4 > len(content):
            raise ValueError("a chunk of labels ends early")
        (size,) = struct.unpack_from("<I", content, position)
        word = content[position + 4 : position + 4 + size]
        if len(word) != size:
            raise ValueError("a chunk of labels ends early")
        texts.append(word.decode())
        position += 4 + size
    return texts
