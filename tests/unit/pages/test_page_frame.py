"""The frame: addresses, access, and every page from the entry point."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.errors import InvalidSettings, StoreUnavailable
from core.settings import AuthSettings, HybridSettings, QualitySettings, RagSettings, Settings
from pages.parts import access, frame, knobs, services
from tests.unit.pages.fake_app import FakeApp

ROOT = Path(__file__).resolve().parents[3]
OpenPage = Callable[..., AppTest]


def test_no_address_equals_the_stem_of_a_pages_file() -> None:
    stems = {path.stem for path in (ROOT / "pages").glob("*.py")}
    assert stems.isdisjoint({spec.url_path for spec in frame.PAGES} | {"start"})


def test_addresses_are_distinct_and_every_listed_page_exists() -> None:
    assert len({spec.url_path for spec in frame.PAGES}) == len(frame.PAGES)
    assert all((ROOT / spec.path).is_file() for spec in frame.PAGES)


def test_every_page_file_is_listed_and_asks_for_access_first() -> None:
    files = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "pages").glob("*.py")}
    files.pop("__init__.py")
    assert set(files) == {spec.file for spec in frame.PAGES}
    for text in files.values():
        calls = [line for line in text.splitlines() if "(" in line and not line.startswith(("import", "from", '"'))]
        assert "access.require(" in calls[0]


def test_no_page_draws_html_or_imports_a_store() -> None:
    for path in (ROOT / "pages").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for word in ("unsafe_allow_html", "st.html(", "components", "pymilvus", "sqlalchemy", "use_container_width"):
            assert word not in text, f"{path.name}: {word}"


def test_the_bare_address_leads_to_the_query_page(fake: FakeApp) -> None:
    at = AppTest.from_file("../../../app.py", default_timeout=30).run()
    assert not at.exception
    assert [s.value for s in at.subheader][:1] == ["Query"]
    assert fake.lookup.requests == []


@pytest.mark.parametrize("spec", frame.PAGES, ids=lambda spec: spec.url_path)
def test_every_page_opens_on_an_empty_installation(open_page: OpenPage, spec: frame.PageSpec) -> None:
    at = open_page(spec.path)
    assert not at.error


@pytest.mark.parametrize("spec", frame.PAGES, ids=lambda spec: spec.url_path)
def test_every_page_denies_whom_no_proxy_names(open_page: OpenPage, fake: FakeApp, spec: frame.PageSpec) -> None:
    fake.settings = Settings(auth=AuthSettings(mode="header"))
    at = open_page(spec.path)
    assert [w.value for w in at.warning] == ["Not allowed"]
    assert not at.text_input


@pytest.mark.parametrize("spec", frame.PAGES, ids=lambda spec: spec.url_path)
def test_every_page_shows_wrong_settings_in_one_box(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, spec: frame.PageSpec
) -> None:
    def wrong() -> Settings:
        raise InvalidSettings("retrieval.search.mode: allowed are hybrid, dense (got 'fuzzy')")

    monkeypatch.setattr(services, "settings", wrong)
    at = open_page(spec.path)
    assert [e.value for e in at.error] == ["The settings cannot be used: this input cannot be used"]
    assert any("got 'fuzzy'" in text.value for text in at.text)


@pytest.mark.parametrize("spec", frame.PAGES, ids=lambda spec: spec.url_path)
def test_every_page_shows_dead_stores_in_one_box(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch, spec: frame.PageSpec
) -> None:
    def away() -> None:
        raise StoreUnavailable("database: connection refused; see `python -m core doctor`")

    monkeypatch.setattr(services, "app", away)
    assert len(open_page(spec.path).error) == 1


# ---------------------------------------------------------------- who is looking

HEADER = AuthSettings(mode="header", user_header="X-User", operators=("olga",), viewers=("victor",))


def test_on_a_local_console_whoever_reaches_it_is_the_operator() -> None:
    assert access.identify(AuthSettings(), {}) == access.User("local", access.Role.OPERATOR)


@pytest.mark.parametrize(
    ("headers", "role"),
    [
        ({"X-User": "olga"}, access.Role.OPERATOR),
        ({"x-user": " victor "}, access.Role.VIEWER),
        ({"X-User": "mallory"}, None),
        ({"X-User": ""}, None),
        ({"X-Forwarded-User": "olga"}, None),
        ({}, None),
        ({"X-User": "olga", "x-user": "victor"}, None),
    ],
)
def test_behind_a_proxy_only_listed_names_get_in(headers: dict[str, str], role: access.Role | None) -> None:
    user = access.identify(HEADER, headers)
    assert (user.role if user else None) == role


def test_with_no_viewers_listed_every_named_user_may_look() -> None:
    auth = AuthSettings(mode="header", user_header="X-User", operators=("olga",))
    assert access.identify(auth, {"X-User": "anyone"}) == access.User("anyone", access.Role.VIEWER)


# ---------------------------------------------------------------- knobs


def test_case_45_every_knob_has_the_limits_of_its_setting_and_says_which_way_it_works() -> None:
    for knob in knobs.KNOBS:
        low, high = knob.limits
        for value in (low, high):
            knob.part(**{knob.name: int(value) if knob.whole else value})
        assert any(word in knob.help for word in ("Higher", "Lower"))
    stricter = {knob.name for knob in knobs.KNOBS if "Higher is stricter" in knob.help}
    assert stricter == {"precise_threshold", "reference_threshold"}


def test_a_knob_shows_the_setting_in_force() -> None:
    settings = Settings(rag=RagSettings(retrieve_k=33), quality=QualitySettings())
    shown = {knob.name: knob.setting(settings) for knob in knobs.KNOBS}
    assert shown["retrieve_k"] == 33
    assert shown["rank_window_size"] == 33
    assert shown["rrf_k"] == HybridSettings().rrf_k
    assert shown["precise_threshold"] is None
