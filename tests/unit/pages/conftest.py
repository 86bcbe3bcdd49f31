from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core.settings import Settings
from pages.parts import services
from tests.unit.pages.fake_app import FakeApp


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApp]:
    """The application that the pages reach in this test."""
    made = FakeApp(settings=Settings())
    monkeypatch.setattr(services, "app", lambda: made)
    monkeypatch.setattr(services, "settings", lambda: made.settings)
    st.cache_resource.clear()
    st.cache_data.clear()
    yield made
    st.cache_resource.clear()
    st.cache_data.clear()


@pytest.fixture
def open_page(fake: FakeApp) -> Callable[..., AppTest]:
    """Starts at the entry point and goes to a page; parameters of the address as keywords."""
    del fake

    def go(path: str, **parameters: str) -> AppTest:
        at = AppTest.from_file("../../../app.py", default_timeout=30)
        at.run()  # app.py first: only then does a page run inside its frame
        assert not at.exception
        at.switch_page(path)
        for name, value in parameters.items():
            at.query_params[name] = value
        at.run()
        assert not at.exception
        return at

    return go
