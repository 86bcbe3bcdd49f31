"""Bytes of a file to text: UTF-8, UTF-16 and GB18030 are told apart, anything else is refused with a reason.

GB18030 reads almost any bytes, so a UTF-8 file with a damaged place must not reach it: it would come out as nonsense.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from core.errors import BadInput

_SAMPLE = 4096


@dataclass(frozen=True, slots=True)
class Decoded:
    """``text`` without byte-order mark and NUL, lines ended by ``\\n``. ``nul_count`` says how many NULs were removed."""

    text: str
    encoding: str
    nul_count: int


def decode(data: bytes) -> Decoded:
    """``data`` as text. Raises BadInput naming the position where none of the encodings fits."""
    text, encoding = _decode(data)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return Decoded(text.replace("\x00", ""), encoding, text.count("\x00"))


def _decode(data: bytes) -> tuple[str, str]:
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise BadInput("unknown encoding: begins like UTF-32; save the file as UTF-8")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _strict(data, "utf-16"), "utf-16"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        position = exc.start
    else:
        silent = _utf16_without_mark(data)
        return (_strict(data, silent), silent) if silent else (text, "utf-8")
    silent = _utf16_without_mark(data)
    if silent:
        return _strict(data, silent), silent
    if _damaged_utf8(data):
        raise BadInput(f"damaged UTF-8: byte {position} fits no character; mend the place or save the file as UTF-8")
    try:
        # the superset of GB2312 and GBK: a smaller set fails on rarer characters
        return data.decode("gb18030"), "gb18030"
    except UnicodeDecodeError as exc:
        raise BadInput(
            f"unknown encoding: byte {position} is no UTF-8, byte {exc.start} no GB18030; save the file as UTF-8"
        ) from exc


def _damaged_utf8(data: bytes) -> bool:
    """Whether nearly all that is not ASCII is well-formed UTF-8 of three or four bytes, which other encodings are not."""
    text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    return sum(char >= "\u0800" for char in text) - bad > 3 * bad


def _strict(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as exc:
        raise BadInput(f"looks like {encoding} but byte {exc.start} is none; save the file as UTF-8") from exc


def _utf16_without_mark(data: bytes) -> str:
    """``utf-16-le``/``-be`` when every other byte of the beginning is mostly NUL (ASCII text), else ''."""
    sample = data[:_SAMPLE]
    half = len(sample) // 2
    if half < 8 or sample.count(0) < half // 3:
        return ""
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if odd > 8 * max(even, 1):
        return "utf-16-le"
    return "utf-16-be" if even > 8 * max(odd, 1) else ""
