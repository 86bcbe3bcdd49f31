"""A guess at the language of a query, for filters: it decides nothing."""

from __future__ import annotations

import re
from typing import Final

MIXED_SHARE: Final = 0.2
_HAN: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LATIN: Final = re.compile("[A-Za-z\u00c0-\u024f]+")


def language(text: str) -> str:
    """``zh``, ``en``, ``mixed`` or ``other``.

    A Han character and a Latin word weigh the same; the smaller part makes a text mixed from a fifth on, so that one
    product name does not hide that a question is Chinese. Any Latin text counts as ``en``.
    """
    han, latin = len(_HAN.findall(text)), len(_LATIN.findall(text))
    if not han + latin:
        return "other"
    if min(han, latin) / (han + latin) >= MIXED_SHARE:
        return "mixed"
    return "zh" if han > latin else "en"
