"""The Query page's decisions, on an application that answers with hand-made results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from core.errors import InvalidFilter, StoreUnavailable
from core.lookup_request import WhatIf
from core.model import LookupResult, Mode, Origin
from core.stores import ConsoleQuery
from pages.parts import asking, history, services, workbench
from tests.unit.pages import samples
from tests.unit.pages.fake_app import NOW, FakeApp

OpenPage = Callable[..., AppTest]


def ask(at: AppTest, text: str) -> AppTest:
    at.text_input(key="lookup.question").set_value(text)
    press(at)
    return at


def press(at: AppTest) -> None:
    next(button for button in at.button if button.label == "Look up").click()
    at.run()
    assert not at.exception


def drawn(at: AppTest) -> str:
    """Everything the page says in words."""
    kinds = (at.text, at.markdown, at.caption, at.error, at.warning, at.info, at.code, at.subheader)
    return "\n".join(str(element.value) for kind in kinds for element in kind)


def test_the_page_opens_without_a_question_and_asks_nothing(open_page: OpenPage, fake: FakeApp) -> None:
    at = open_page("pages/query.py")
    assert "No question yet" in drawn(at)
    assert fake.lookup.requests == []


def test_a_question_is_looked_up_once_and_its_result_drawn(open_page: OpenPage, fake: FakeApp) -> None:
    at = ask(open_page("pages/query.py"), "redis 连接池耗尽怎么排查")
    (request,) = fake.lookup.requests
    assert (request.query, request.origin, request.actor) == ("redis 连接池耗尽怎么排查", Origin.CONSOLE, "local")
    assert request.what_if is None
    assert request.kb_scope is None
    assert "READY" in drawn(at)
    assert "PRECISE" in drawn(at)
    assert at.query_params["trace"] == "tr-found-1"


def test_case_108_nothing_searches_again_because_a_widget_was_touched(open_page: OpenPage, fake: FakeApp) -> None:
    at = ask(open_page("pages/query.py"), "redis")
    at.run()
    at.segmented_control(key="lookup.shape").set_value("JSON").run()
    at.selectbox(key="lookup.expected").set_value("redis/connection-pool-exhausted").run()
    at.number_input(key="lookup.knob.rrf_k").set_value(10).run()
    assert not at.exception
    assert len(fake.lookup.requests) == 1
    assert fake.traces.reads == 0
    assert "READY" in drawn(at)


def test_case_107_a_second_press_while_the_first_was_under_way_is_the_same_press(fake: FakeApp) -> None:
    question = asking.Question("redis", (), None)
    now = iter([10.0, 10.4, 13.0, 13.1])
    clock = lambda: next(now)  # noqa: E731
    first = asking.answer(question, fake.lookup.lookup, actor="a", clock=clock)
    again = asking.answer(question, fake.lookup.lookup, actor="a", clock=clock)
    assert again.result.trace_id == first.result.trace_id
    assert len(fake.lookup.requests) == 1
    later = asking.answer(question, fake.lookup.lookup, actor="a", clock=clock)
    assert later.result.trace_id != first.result.trace_id
    assert len(fake.lookup.requests) == 2


def test_touched_knobs_change_this_lookup_and_are_marked(open_page: OpenPage, fake: FakeApp) -> None:
    at = open_page("pages/query.py")
    at.number_input(key="lookup.knob.rrf_k").set_value(10)
    at.number_input(key="lookup.knob.reference_threshold").set_value(0.6)
    at.selectbox(key="lookup.knob.mode").set_value("dense")
    at.checkbox(key="lookup.knob.filter").check()
    ask(at, "redis")
    assert fake.lookup.requests[0].what_if == WhatIf(
        mode=Mode.DENSE, rrf_k=10, reference_threshold=0.6, category_filter_off=True
    )
    assert "What-if, not the saved settings: mode = dense, rrf_k = 10" in drawn(at)


def test_the_scope_is_passed_on_and_an_empty_choice_is_the_configured_one(open_page: OpenPage, fake: FakeApp) -> None:
    at = open_page("pages/query.py")
    assert at.multiselect(key="lookup.scopes").options == ["default", "rag-eval", "all scopes (*)"]
    at.multiselect(key="lookup.scopes").set_value(["rag-eval"])
    ask(at, "redis")
    assert fake.lookup.requests[0].kb_scope == ("rag-eval",)


def test_the_address_of_a_result_shows_it_in_another_browser(open_page: OpenPage, fake: FakeApp) -> None:
    fake.traces.stored["tr-found"] = samples.found()
    at = open_page("pages/query.py", trace="tr-found")
    assert fake.lookup.requests == []
    assert "PRECISE" in drawn(at)
    assert at.text_input(key="lookup.question").value == "redis 连接池耗尽怎么排查"
    at.run()
    assert fake.traces.reads == 1


def test_an_address_of_nothing_says_so_in_one_box(open_page: OpenPage) -> None:
    at = open_page("pages/query.py", trace="no-such")
    assert [e.value for e in at.error] == ["This result cannot be shown: this input cannot be used"]
    assert "no lookup with this id is recorded" in drawn(at)


def test_a_refused_question_is_explained_and_has_its_record(open_page: OpenPage, fake: FakeApp) -> None:
    at = ask(open_page("pages/query.py"), " ")
    assert len(fake.lookup.requests) == 1
    assert "the query is empty: type a question" in drawn(at)
    assert "Nothing was searched" in drawn(at)


def test_an_error_that_the_lookup_raises_is_one_box(open_page: OpenPage, fake: FakeApp) -> None:
    fake.lookup.error = InvalidFilter("kb_scope: '*' stands alone; leave the other names out")
    at = ask(open_page("pages/query.py"), "redis")
    assert len(at.error) == 1
    assert "'*' stands alone" in drawn(at)


def test_a_dead_trace_store_is_one_box_without_a_secret(open_page: OpenPage, fake: FakeApp) -> None:
    fake.traces.error = StoreUnavailable("mysql+pymysql://kb:S3cr3t-CANARY@db:3306/x: connection refused")
    at = open_page("pages/query.py", trace="tr-1")
    assert len(at.error) == 1
    assert "S3cr3t-CANARY" not in drawn(at)
    assert "db:3306" in drawn(at)


def test_an_unexpected_error_shows_its_class_and_no_text(
    open_page: OpenPage, fake: FakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(request: object) -> None:
        del request
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr(fake.lookup, "lookup", broken)
    at = ask(open_page("pages/query.py"), "redis")
    assert "ZeroDivisionError" in drawn(at)
    assert "secret words" not in drawn(at)


def test_a_console_that_cannot_start_is_one_box(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise StoreUnavailable("milvus: connection refused; start it with `python -m core serve`")

    monkeypatch.setattr(services, "app", away)
    at = open_page("pages/query.py")
    assert len(at.error) == 1
    assert "python -m core serve" in drawn(at)


def test_warming_is_shown_while_nothing_was_searched_yet(open_page: OpenPage, fake: FakeApp) -> None:
    fake.lookup.warming = True
    assert "Warming up" in drawn(open_page("pages/query.py"))
    fake.lookup.warming = False
    assert "Warming up" not in drawn(open_page("pages/query.py"))


@pytest.mark.parametrize("name", samples.ALL)
def test_every_kind_of_result_is_drawn(open_page: OpenPage, fake: FakeApp, name: str) -> None:
    fake.lookup.answer = samples.ALL[name]
    at = ask(open_page("pages/query.py"), "redis 连接池")
    assert not at.exception


def test_a_fallback_shows_both_attempts_and_lets_one_choose(open_page: OpenPage, fake: FakeApp) -> None:
    fake.lookup.answer = samples.fallback
    at = ask(open_page("pages/query.py"), "kafka 消费延迟")
    assert "the retry without it reached 0.910: it helped." in drawn(at)
    choice = next(c for c in at.segmented_control if c.label == "Attempt shown below")
    choice.set_value(samples.fallback().retrieval_trace.attempts[0].name).run()
    assert not at.exception
    assert "below the reference threshold 0.500: low quality" in drawn(at)


def test_a_queued_record_is_shown(open_page: OpenPage, fake: FakeApp) -> None:
    fake.lookup.receipt = "queued"
    assert ":orange[**queued**]" in drawn(ask(open_page("pages/query.py"), "redis"))


def test_a_chosen_chunk_is_opened_with_its_text(open_page: OpenPage) -> None:
    at = ask(open_page("pages/query.py"), "redis")
    at.session_state["lookup.chosen"] = "jvm/thread-pool-exhausted#chunk-0"
    at.run()
    assert "dropped: projection bytes" in drawn(at)
    assert "redis-cli info clients" in drawn(at)


def test_text_that_is_not_stored_is_named_and_not_blank(open_page: OpenPage, fake: FakeApp) -> None:
    result = samples.found()
    first = result.retrieval_trace.attempts[0]
    bare = replace(first, candidates=tuple(replace(c, content=None) for c in first.candidates))
    fake.traces.stored["tr-found"] = replace(
        result, tool_result=None, projection=None, retrieval_trace=replace(result.retrieval_trace, attempts=(bare,))
    )
    at = open_page("pages/query.py", trace="tr-found")
    at.session_state["lookup.chosen"] = first.candidates[0].evidence_key
    at.run()
    assert "no longer in the index" in drawn(at)
    assert "What the agent was given is not stored" in drawn(at)


def test_the_expected_document_shows_its_ranks_or_that_it_is_no_candidate(
    open_page: OpenPage, fake: FakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    probed: list[str] = []

    def probe(service: object, result: LookupResult, doc_id: str, documents: object) -> SimpleNamespace:
        del service, documents
        probed.append(doc_id)
        return SimpleNamespace(lines=(f"{doc_id}: beyond the window: dense 87", f"in {result.trace_id}"))

    monkeypatch.setattr(workbench, "probe_expected", probe)
    at = ask(open_page("pages/query.py"), "redis")
    at.selectbox(key="lookup.expected").set_value("other/unrelated").run()
    assert "not among the candidates" in drawn(at)
    at.button(key="lookup.probe").click().run()
    assert "other/unrelated: beyond the window: dense 87" in drawn(at)
    at.run()
    assert "other/unrelated: beyond the window: dense 87" in drawn(at), "gone with the next touch of the page"
    assert probed == ["other/unrelated"]
    assert len(fake.lookup.requests) == 1


@pytest.mark.parametrize("name", ["hostile"])
def test_case_114_and_115_hostile_text_stays_text(open_page: OpenPage, fake: FakeApp, name: str) -> None:
    fake.lookup.answer = samples.ALL[name]
    at = ask(open_page("pages/query.py"), "<script>alert(4)</script> ![p](https://kb.example.invalid/p.png) $1$")
    for element in (*at.markdown, *at.caption, *at.error, *at.warning, *at.info, *at.subheader):
        outside = "".join(str(element.value).split("`")[::2])
        assert "<" not in outside
        assert "](" not in outside
        assert "\u202e" not in str(element.value)
        assert not getattr(element.proto, "allow_html", False)


def test_a_redacted_record_says_what_is_not_stored_and_takes_the_question_from_the_history(
    open_page: OpenPage, fake: FakeApp
) -> None:
    fake.traces.content = "redacted"
    fake.traces.stored["tr-found"] = replace(samples.found(), query="")
    at = open_page("pages/query.py", trace="tr-found")
    assert "audit.content was redacted: the question (23 characters, SHA-256 abababababab…) and texts" in drawn(at)

    services.views.clear()
    fake.history.questions.append(ConsoleQuery("tr-found", "redis 连接池", NOW))
    at = open_page("pages/query.py", trace="tr-found")
    assert "audit.content was redacted: texts are not stored" in drawn(at)
    assert at.text_input(key="lookup.question").value == "redis 连接池"


def test_the_history_lists_earlier_questions_with_their_what_if(fake: FakeApp) -> None:
    entries = [ConsoleQuery("t-1", "=1+1", NOW, evidence_status="READY", what_if={"rrf_k": 10}, actor="ann")]
    table = history.table(entries, "Asia/Shanghai")
    assert table.iloc[0].tolist() == ["2026-03-01 16:15:30.123 CST", "'=1+1", "READY", "", "", "rrf_k = 10", "ann"]
    assert len(history.table([], "UTC")) == 0
    assert fake.lookup.requests == []


def test_case_48_a_shown_result_says_what_it_was_made_with(open_page: OpenPage) -> None:
    at = ask(open_page("pages/query.py"), "redis pool")
    assert "Made with: hybrid · retrieve_k 20" in drawn(at)


def test_case_59_the_number_of_documents_stands_beside_the_number_of_pieces(open_page: OpenPage) -> None:
    at = ask(open_page("pages/query.py"), "redis pool")
    documents = {e.doc_id for e in samples.found().evidence}
    assert f"pieces of evidence from {len(documents)} document" in drawn(at)


def test_case_61_a_text_that_stands_in_two_documents_names_the_other(open_page: OpenPage, fake: FakeApp) -> None:
    found = samples.found()
    twin = replace(found.evidence[0], also_in=("ops/v2",))
    fake.lookup.answer = lambda: replace(found, evidence=(twin, *found.evidence[1:]))
    at = ask(open_page("pages/query.py"), "redis pool")
    assert "the same text also stands in" in drawn(at)
    assert "ops/v2" in drawn(at)
