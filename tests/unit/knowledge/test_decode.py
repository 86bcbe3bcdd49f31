"""Bytes to text: what is read, what is refused, and that the encoding is a mark and no content."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.errors import BadInput
from core.knowledge.decode import decode

TEXT = "# 主机巡检\n\n温度 ℃ 正常，café 😀\n"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (TEXT.encode(), "utf-8"),
        (codecs.BOM_UTF8 + TEXT.encode(), "utf-8"),
        (TEXT.replace("\n", "\r\n").encode(), "utf-8"),
        (TEXT.replace("\n", "\r").encode(), "utf-8"),
        (codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"), "utf-16"),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), "utf-16"),
        (TEXT.encode("gb18030"), "gb18030"),
    ],
    ids=["plain", "BOM", "CRLF", "CR", "UTF-16 LE", "UTF-16 BE", "GB18030"],
)
def test_case_1_the_same_text_comes_out_of_every_encoding(data: bytes, encoding: str) -> None:
    decoded = decode(data)
    assert decoded.text == TEXT
    assert decoded.encoding == encoding
    assert decoded.nul_count == 0


def test_case_11_characters_beyond_gbk_are_read_as_gb18030() -> None:
    text = "生僻字 㐀 𠀀 与 😀 都在。"
    assert decode(text.encode("gb18030")).text == text
    with pytest.raises(UnicodeEncodeError):
        text.encode("gbk")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_told_by_its_zeros(encoding: str) -> None:
    decoded = decode("title: plain ascii text in wide characters".encode(encoding))
    assert decoded.text == "title: plain ascii text in wide characters"
    assert decoded.encoding == encoding


def test_case_14_nul_characters_are_removed_and_counted() -> None:
    decoded = decode("前半句\0后半句\0。".encode())
    assert decoded.text == "前半句后半句。"
    assert decoded.nul_count == 2


def test_an_empty_file_is_an_empty_text() -> None:
    assert decode(b"").text == ""
    assert decode(codecs.BOM_UTF8).text == ""


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"ok \xff\xff end", "unknown encoding: byte 3 is no UTF-8, byte 3 no GB18030; save the file as UTF-8"),
        (codecs.BOM_UTF16_LE + b"a", "looks like utf-16 but byte 2 is none"),
        (codecs.BOM_UTF32_LE + "ab".encode("utf-32-le"), "unknown encoding: begins like UTF-32"),
        ("连接池耗尽时先看等待队列。".encode()[:-1], "damaged UTF-8: byte 36"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff\xff", "unknown encoding"),
    ],
    ids=["neither", "half a character", "UTF-32", "cut in the middle", "a picture"],
)
def test_what_cannot_be_read_is_refused_with_its_place(data: bytes, line: str) -> None:
    with pytest.raises(BadInput, match="^" + line):
        decode(data)


def test_a_damaged_place_in_utf8_is_not_read_as_other_characters() -> None:
    data = "重启之前先确认主从状态。".encode()
    with pytest.raises(BadInput, match=r"^damaged UTF-8: byte 9 "):
        decode(data[:9] + b"\xff" + data[10:])


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\0\ufeff"), max_size=80))
def test_any_text_survives_utf8_and_utf16(text: str) -> None:
    assert decode(codecs.BOM_UTF8 + text.encode()).text == text
    assert decode(codecs.BOM_UTF16_BE + text.encode("utf-16-be")).text == text
    assume(text.encode()[:2] not in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE})
    assert decode(text.encode()).text == text


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_and_never_hold_nul_or_cr(data: bytes) -> None:
    try:
        text = decode(data).text
    except BadInput:
        return
    assert not set(text) & {"\0", "\r"}
