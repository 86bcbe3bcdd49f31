"""The list of pages as data, and the frame that each stands in.

No ``url_path`` equals the stem of a page's file: with a folder ``pages/``, Streamlit would answer such an address by
running the file without ``app.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import streamlit as st


@dataclass(frozen=True, slots=True)
class PageSpec:
    """``file`` under ``pages/``, the ``url_path`` of its address, and how the navigation names it. No icon: the browser would
    fetch a ``:material/…:`` icon of a page from another host."""

    file: str
    title: str
    url_path: str

    @property
    def path(self) -> str:
        return f"pages/{self.file}"


QUERY: Final = PageSpec("query.py", "Query", "lookup")
TRACE: Final = PageSpec("trace.py", "Trace", "trace-view")
AUDIT: Final = PageSpec("audit.py", "Audit", "audit-log")
REBUILD: Final = PageSpec("rebuild.py", "Rebuild", "index")
EVAL: Final = PageSpec("evaluation.py", "Eval", "eval-desk")
PAGES: Final = (QUERY, TRACE, AUDIT, REBUILD, EVAL)


def page(spec: PageSpec) -> st.Page:
    return st.Page(spec.path, title=spec.title, url_path=spec.url_path)


def start() -> None:
    """The bare address leads to the Query page, parameters kept: a default page would have no address of its own."""
    st.switch_page(QUERY.path, query_params=st.query_params.to_dict())


def head(title: str, caption: str) -> None:
    """The top of a page, of our own words."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.subheader(title, anchor=False, width="content")
        st.caption(caption)
