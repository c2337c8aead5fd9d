"""Frames of a log: one per accepted row, and one per schema that says how the rows after it are laid out."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any, NamedTuple

from depthscope.store.schema import Schema

_BODY = struct.Struct("<I4sQqd")
_CRC = struct.Struct("<I")
HEADER_BYTES = _BODY.size + _CRC.size
ROW, SCHEMA = b"row.", b"plan"
NO_ROW = 2**64 - 1


class BadFrame(ValueError):
    """Bytes that are no frame: a torn or overwritten end of a log."""


class Frame(NamedTuple):
    kind: bytes
    row: int
    step: int
    wall_time: float
    start: int
    """Where the payload begins."""
    end: int


def header(kind: bytes, row: int, step: int, wall_time: float, payload: Any) -> bytes:
    """Return length, kind, row, step, time and a crc32 over all of these and the payload."""
    body = _BODY.pack(len(payload), kind, row, step, wall_time)
    return body + _CRC.pack(zlib.crc32(payload, zlib.crc32(body)))


def schema_frame(schema: Schema) -> bytes:
    payload = json.dumps(schema.to_json(), separators=(",", ":")).encode()
    return header(SCHEMA, NO_ROW, 0, 0.0, payload) + payload


def read_frame(buffer: memoryview, position: int) -> Frame | None:
    """Return the frame at `position`; None when it is not whole yet; BadFrame when it never will be."""
    start = position + HEADER_BYTES
    if start > len(buffer):
        return None
    length, kind, row, step, wall_time = _BODY.unpack_from(buffer, position)
    if kind not in (ROW, SCHEMA):
        raise BadFrame("unknown kind of frame")
    end = start + length
    if end > len(buffer):
        return None
    (expected,) = _CRC.unpack_from(buffer, start - _CRC.size)
    if zlib.crc32(buffer[start:end], zlib.crc32(buffer[position : start - _CRC.size])) != expected:
        raise BadFrame("checksum does not fit")
    return Frame(kind, row, step, wall_time, start, end)


def read_schema(buffer: memoryview, frame: Frame) -> Schema:
    """Decode a schema frame; BadFrame when it holds no schema."""
    try:
        return Schema.from_json(json.loads(bytes(buffer[frame.start : frame.end])))
    except (ValueError, RecursionError) as error:
        raise BadFrame(str(error)) from None
