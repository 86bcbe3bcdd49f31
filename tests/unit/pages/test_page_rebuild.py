"""The Rebuild page: what it shows, what it starts, and that the job and not the page run owns the work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from streamlit.testing.v1 import AppTest

from core.errors import NotAllowed, RebuildRefused, StoreUnavailable
from core.knowledge.rebuild.values import Drift, IndexStatus, Plan
from core.settings import AuthSettings, KnowledgeSettings, Settings
from core.stores import RunLogLine
from pages.parts import access, index_state, job, pace, runs
from tests.unit.pages import fake_rebuild
from tests.unit.pages.fake_app import FakeApp
from tests.unit.pages.fake_rebuild import REJECTED, START
from tests.unit.pages.test_page_query import drawn

OpenPage = Callable[..., AppTest]
PATH = "pages/rebuild.py"
VICTOR = access.User("victor", access.Role.VIEWER)


def press(at: AppTest, key: str) -> AppTest:
    at.button(key=key).click()
    at.run()
    assert not at.exception
    return at


def choose(at: AppTest, what: str) -> AppTest:
    at.segmented_control(key="index.what").set_value(what).run()
    assert not at.exception
    return at


# ---------------------------------------------------------------- what is shown


def test_an_empty_installation_says_what_to_do(open_page: OpenPage) -> None:
    at = open_page(PATH)
    assert "No index yet" in drawn(at)
    assert "every document on disk is new" in drawn(at)
    assert "Nothing was done yet" in drawn(at)


def test_the_active_generation_is_shown_whole(open_page: OpenPage, fake: FakeApp) -> None:
    fake.rebuild.state = fake_rebuild.active(3, previous=fake_rebuild.generation(2))
    fake.rebuild.on_disk = Drift(3)
    at = open_page(PATH)
    words = drawn(at)
    for expected in ("**3**", "**12**", "**80**", "e5-small", "2026-03-01 08:15:30.000 UTC", "generation 2"):
        assert expected in words
    assert [s.value for s in at.success] == ["Nothing changed on disk since: the index is current."]


def test_drift_names_every_document_and_what_demands_a_rebuild(open_page: OpenPage, fake: FakeApp) -> None:
    fake.rebuild.state = fake_rebuild.active()
    fake.rebuild.on_disk = Drift(
        3, added=("a/new",), changed=("b/old", "c/old"), demands=("the analysis version is 2, the index has 1",)
    )
    at = open_page(PATH)
    assert [w.value for w in at.warning] == ["1 added, 2 changed"]
    assert "A rebuild is demanded: the analysis version is 2" in drawn(at)
    table = at.dataframe[0].value
    assert list(table["Document"]) == ["a/new", "b/old", "c/old"]


def test_rejected_files_stand_with_line_and_reason(open_page: OpenPage, fake: FakeApp) -> None:
    fake.rebuild.state = fake_rebuild.active(rejected=REJECTED, warnings=("w.md: no title",))
    at = open_page(PATH)
    table = next(d.value for d in at.dataframe if "Reason" in d.value)
    assert list(table["File"]) == ["bad/<b>yaml.md", "empty.md"]
    assert table["Line"].tolist()[0] == 2
    assert table["Line"].isna().tolist() == [False, True]
    assert "w.md: no title" in drawn(at)


def test_a_dead_database_is_named_and_every_button_is_off(open_page: OpenPage, fake: FakeApp) -> None:
    fake.rebuild.error = StoreUnavailable("database: connection refused")
    at = open_page(PATH)
    assert "The state of the work cannot be read: a store or a model cannot be used now" in [e.value for e in at.error]
    assert "No index yet" not in drawn(at)
    assert "Nothing was done yet" not in drawn(at)
    assert all(button.disabled for button in at.button)


# ---------------------------------------------------------------- the guard


def test_the_typed_word_reaches_core_as_it_is_and_core_refuses_another(open_page: OpenPage, fake: FakeApp) -> None:
    at = open_page(PATH)
    at.text_input(key="index.rebuild.word").set_value("rebuild")
    press(at, "index.rebuild.press")
    assert fake.rebuild.started == []
    assert [e.value for e in at.error] == ["Not rebuilt"]
    assert "not confirmed: type REBUILD in full" in drawn(at)


def test_a_confirmed_rebuild_starts_one_job_with_who_and_why(open_page: OpenPage, fake: FakeApp) -> None:
    at = open_page(PATH)
    at.text_input(key="index.rebuild.word").set_value("REBUILD")
    at.text_input(key="index.rebuild.why").set_value(" 新手册 ")
    at.checkbox(key="index.rebuild.hold").check()
    press(at, "index.rebuild.press")
    assert fake.rebuild.started == [("rebuild", {"who": "local", "why": "新手册", "hold": True, "allow_shrink": False})]
    assert "The rebuild has begun" in [s.value for s in at.success]


def test_case_107_while_a_job_runs_every_button_is_off_and_a_press_that_was_on_its_way_starts_nothing(
    open_page: OpenPage, fake: FakeApp
) -> None:
    at, late = open_page(PATH), open_page(PATH)
    for one in (at, late):  # both pages were drawn before either press
        one.text_input(key="index.rebuild.word").set_value("REBUILD")
        press(one, "index.rebuild.press")
    assert [kind for kind, _ in fake.rebuild.started] == ["rebuild"]
    assert "Not rebuilt" in [e.value for e in late.error]
    assert "rebuild run-1 by local (host-a pid 7) is under way" in drawn(late)
    for what, key in (("Rebuild", "rebuild"), ("Add a document", "upload"), ("Remove a document", "remove")):
        assert choose(at, what).button(key=f"index.{key}.press").disabled
    assert at.button(key="index.dry").disabled


def test_a_refusal_of_core_is_shown_with_its_reason_and_stays_until_dismissed(
    open_page: OpenPage, fake: FakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise RebuildRefused("3 documents where 12 were: allow it explicitly")

    monkeypatch.setattr(fake.rebuild, "start", refuse)
    at = press(open_page(PATH), "index.rebuild.press")
    at.run()
    assert "3 documents where 12 were" in drawn(at)
    press(at, "index.notice.dismiss")
    assert "3 documents where 12 were" not in drawn(at)


def test_an_unexpected_failure_of_a_press_shows_its_class_only(
    open_page: OpenPage, fake: FakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> str:
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr(fake.rebuild, "start", broken)
    words = drawn(press(open_page(PATH), "index.rebuild.press"))
    assert "ZeroDivisionError" in words
    assert "secret words" not in words


def test_a_viewer_sees_the_index_but_no_form(
    open_page: OpenPage, fake: FakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.settings = Settings(auth=AuthSettings(mode="header"))
    fake.rebuild.state = fake_rebuild.active()
    fake.rebuild.now = fake_rebuild.run()
    monkeypatch.setattr(access, "identify", lambda *_: VICTOR)
    at = open_page(PATH)
    assert "victor may look at the index, but not change it." in drawn(at)
    assert not at.text_input
    assert at.button(key="index.cancel").disabled
    with pytest.raises(NotAllowed, match=r"auth\.operators"):
        job.allow(VICTOR)


# ---------------------------------------------------------------- roll-back, switch, documents


def test_a_roll_back_names_the_generation_and_takes_its_own_word(open_page: OpenPage, fake: FakeApp) -> None:
    fake.rebuild.state = fake_rebuild.active(3, previous=fake_rebuild.generation(2))
    at = choose(open_page(PATH), "Roll back")
    assert "Back to generation 2: 12 documents" in drawn(at)
    at.text_input(key="index.rollback.word").set_value("REBUILD")
    press(at, "index.rollback.press")
    assert fake.rebuild.started == []
    at.text_input(key="index.rollback.word").set_value("ROLLBACK")
    press(at, "index.rollback.press")
    assert fake.rebuild.started == [("rollback", {"who": "local", "why": ""})]


def test_without_an_earlier_or_a_held_generation_there_is_no_such_form(open_page: OpenPage) -> None:
    at = choose(open_page(PATH), "Roll back")
    assert "Nothing to roll back to" in drawn(at)
    choose(at, "Activate a held one")
    assert "No generation is held" in drawn(at)
    assert not at.text_input


def test_a_held_generation_is_activated_by_its_number(open_page: OpenPage, fake: FakeApp) -> None:
    fake.rebuild.state = fake_rebuild.active(3, held=(fake_rebuild.generation(5), fake_rebuild.generation(4)))
    at = choose(open_page(PATH), "Activate a held one")
    assert ":blue[**Held**] generation 5" in drawn(at)
    at.selectbox(key="index.held").set_value(4)
    at.run()
    at.text_input(key="index.switch.word").set_value("SWITCH")
    press(at, "index.switch.press")
    assert fake.rebuild.started == [("switch", {"who": "local", "why": "", "generation": 4})]


def test_an_upload_hands_over_the_bytes_under_folder_and_name(open_page: OpenPage, fake: FakeApp) -> None:
    at = choose(open_page(PATH), "Add a document")
    press(at, "index.upload.press")
    assert "no file was chosen" in drawn(at)
    data = "# 连接池\n".encode()
    files = [("连接池.md", data, "text/markdown"), ("b.md", b"b", "text/markdown")]
    at.file_uploader(key="index.upload.files").set_value(files)
    at.text_input(key="index.upload.folder").set_value(" redis/ ")
    press(at, "index.upload.press")
    contents = {"redis/连接池.md": data, "redis/b.md": b"b"}
    assert fake.rebuild.started == [("upload", {"who": "local", "why": "", "contents": contents})]


def test_two_files_of_one_name_are_refused_before_one_hides_the_other(open_page: OpenPage, fake: FakeApp) -> None:
    at = choose(open_page(PATH), "Add a document")
    at.file_uploader(key="index.upload.files").set_value(
        [("a.md", b"1", "text/markdown"), ("a.md", b"2", "text/markdown")]
    )
    press(at, "index.upload.press")
    assert fake.rebuild.started == []
    assert "two of the files are called a.md" in drawn(at)


def test_the_gate_can_be_skipped_only_where_it_is_on(open_page: OpenPage, fake: FakeApp) -> None:
    fake.settings = Settings(knowledge=KnowledgeSettings(golden_gate=False))
    assert [c.key for c in open_page(PATH).checkbox] == ["index.rebuild.hold", "index.rebuild.allow_shrink"]
    fake.settings = Settings(knowledge=KnowledgeSettings(golden_gate=True))
    assert "index.rebuild.skip_gate" in [c.key for c in open_page(PATH).checkbox]


def test_a_document_is_removed_by_its_id(open_page: OpenPage, fake: FakeApp) -> None:
    at = choose(open_page(PATH), "Remove a document")
    press(at, "index.remove.press")
    assert "no document was chosen" in drawn(at)
    at.selectbox(key="index.remove.doc").set_value("other/unrelated")
    press(at, "index.remove.press")
    assert fake.rebuild.started == [("remove", {"who": "local", "why": "", "doc_id": "other/unrelated"})]


# ---------------------------------------------------------------- dry run


def test_case_108_a_dry_run_stays_while_other_widgets_are_used_and_is_made_once(
    open_page: OpenPage, fake: FakeApp
) -> None:
    fake.rebuild.plan = Plan(
        added=("a/new",),
        removed=("z/gone",),
        unchanged=("b", "c"),
        rejected=REJECTED,
        documents=3,
        documents_before=12,
        chunks=90,
        to_embed=40,
        from_cache=50,
        seconds=75.4,
        rate=2.0,
        faster="use",
        faster_seconds=3.0,
        refused="3 documents where 12 were",
    )
    at = press(open_page(PATH), "index.dry")
    choose(at, "Add a document")
    choose(at, "Rebuild")
    at.checkbox(key="index.rebuild.hold").check().run()
    words = drawn(at)
    assert fake.rebuild.plans == 1
    for expected in ("about 1 min 15 s", "12 → 3", "It would be refused: 3 documents", "profile use would take about"):
        assert expected in words
    changes = next(d.value for d in at.dataframe if "Change" in d.value)
    assert changes.to_numpy().tolist() == [["added", "a/new"], ["removed", "z/gone"]]
    press(at, "index.dry")
    assert fake.rebuild.plans == 2


def test_a_failed_dry_run_is_one_box(open_page: OpenPage, fake: FakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> Plan:
        raise StoreUnavailable("the source folder is not mounted")

    monkeypatch.setattr(fake.rebuild, "dry_run", away)
    at = press(open_page(PATH), "index.dry")
    assert "The dry run failed: a store or a model cannot be used now" in [e.value for e in at.error]


# ---------------------------------------------------------------- the job


def test_case_109_every_browser_sees_the_running_job_and_later_its_outcome(open_page: OpenPage, fake: FakeApp) -> None:
    fake.rebuild.now = fake_rebuild.run(done=36, total=120)
    for at in (open_page(PATH), open_page(PATH)):  # a reload and another browser: two new sessions
        assert "30 of 120" not in drawn(at)
        assert at.get("progress")[0].proto.value == 36 * 100 // 120
        assert "`rebuild` under way" in drawn(at)
        assert "by `ann` on `host-a pid 7` since 2026-03-01 08:15:30.000 UTC" in drawn(at)
    fake.rebuild.past = [
        replace(fake.rebuild.now, held=False, state="ACTIVE", finished_at=START + timedelta(seconds=65))
    ]
    fake.rebuild.now = None
    at.run()
    assert "under way" not in drawn(at)
    assert "Last job: `rebuild` by `ann`, :green[**ACTIVE**] at 2026-03-01 08:16:35.000 UTC after 1 min 05 s" in drawn(
        at
    )
    table = at.dataframe[-1].value
    assert table[["State", "Took"]].to_numpy().tolist() == [["ACTIVE", "1 min 05 s"]]


def test_the_notice_of_a_start_goes_when_the_job_is_over(open_page: OpenPage, fake: FakeApp) -> None:
    at = open_page(PATH)
    at.text_input(key="index.rebuild.word").set_value("REBUILD")
    press(at, "index.rebuild.press")
    assert "The rebuild has begun" in [s.value for s in at.success]
    fake.rebuild.past = [fake_rebuild.run(held=False, state="FAILED", outcome={"error": "disk full <b>"})]
    fake.rebuild.now = None
    at.run()
    assert "The rebuild has begun" not in [s.value for s in at.success]
    assert "⚠ disk full <b>" in drawn(at)


def test_a_cancel_is_asked_for_once_and_shown(open_page: OpenPage, fake: FakeApp) -> None:
    fake.rebuild.now = fake_rebuild.run()
    at = press(open_page(PATH), "index.cancel")
    assert fake.rebuild.cancelled == [("run-1", "local")]
    assert at.button(key="index.cancel").disabled
    assert "local asked to cancel it." in drawn(at)


def test_a_job_that_begins_between_two_looks_draws_the_page_anew(fake: FakeApp) -> None:
    assert job._identity(None) != job._identity(fake_rebuild.run("a"))
    assert job._identity(fake_rebuild.run("a", done=1)) == job._identity(fake_rebuild.run("a", done=2))
    fake.rebuild.error = StoreUnavailable("away")
    assert isinstance(job.running(fake), StoreUnavailable)  # type: ignore[arg-type]


# ---------------------------------------------------------------- history


def test_a_run_of_the_address_is_shown_with_its_log(open_page: OpenPage, fake: FakeApp) -> None:
    fake.rebuild.past = [
        fake_rebuild.run(
            "run-9",
            state="FAILED",
            held=False,
            finished_at=START + timedelta(seconds=4),
            log=(RunLogLine(START, "verify", "2 chunks missing <b>\u202e"),),
            outcome={"added": 2, "removed": 0, "documents": 7, "error": "2 chunks are not found again"},
        )
    ]
    at = open_page(PATH, rebuild="run-9")
    words = drawn(at)
    assert ":red[**FAILED**]" in words
    assert "2 chunks missing <b>⟨U+202E⟩" in words
    assert "2 added" in words
    assert "Error: 2 chunks are not found again" in words
    press(at, "index.run.close")
    assert "rebuild" not in at.query_params


def test_an_address_of_no_run_is_one_box(open_page: OpenPage) -> None:
    at = open_page(PATH, rebuild="none")
    assert [e.value for e in at.error] == ["This run cannot be shown: this input cannot be used"]


def test_the_difference_of_a_run_tells_nothing_recorded_from_nothing_changed() -> None:
    assert runs.difference(fake_rebuild.run(outcome={})) == ""
    assert runs.difference(fake_rebuild.run(outcome={"added": [], "changed": 0})) == "no difference"
    assert runs.difference(fake_rebuild.run(outcome={"added": ["a"], "rejected": 2, "kept": True})) == (
        "1 added, 2 rejected"
    )
    moved = {"added": 0, "changed": 0, "previous": 4}
    assert runs.difference(fake_rebuild.run(kind="rollback", outcome=moved)) == "from generation 4"
    assert runs.difference(fake_rebuild.run(kind="rebuild", outcome=moved)) == "no difference"


def test_tables_of_nothing_are_empty() -> None:
    assert len(runs.history_table([], "UTC")) == 0
    assert len(index_state.changes_table((), (), ())) == 0
    assert len(index_state.rejected_table(())) == 0
    assert runs.log_text(fake_rebuild.run(log=()), "UTC") == ""


def test_a_long_list_of_changes_is_cut() -> None:
    assert len(index_state.changes_table([f"d{n}" for n in range(9)], ["x"], [], rows=4)) == 4


@pytest.mark.parametrize(
    ("params", "search", "words"),
    [
        ({"index_type": "FLAT", "metric_type": "L2"}, {}, "FLAT"),
        ({"index_type": "IVF_FLAT", "nlist": 256}, {"nprobe": 64}, "IVF_FLAT nlist=256 nprobe=64"),
        ({"index_type": "IVF_FLAT", "params": {"nlist": 256}}, {}, "IVF_FLAT nlist=256"),
        ({}, {}, "default"),
    ],
)
def test_the_kind_of_index_is_named_with_its_parameters(
    params: dict[str, object], search: dict[str, object], words: str
) -> None:
    assert index_state.index_words(fake_rebuild.generation(1, index_params=params, search_params=search)) == words


def test_the_proof_before_the_switch_is_shown_and_a_missing_one_is_no_perfect_one() -> None:
    proven = fake_rebuild.active(proof={"chunks": 80, "sampled": 20, "recall": 0.991})
    assert index_state.recall_words(proven) == "0.991"
    assert "80 chunks counted in both stores, 20 sampled" in index_state.proof_words(proven)
    unmeasured = fake_rebuild.active(proof={"chunks": 80, "sampled": 20, "recall": None})
    assert index_state.recall_words(unmeasured) == "–"
    assert index_state.proof_words(fake_rebuild.active()) == "No proof is recorded."


def test_no_generation_is_not_a_current_index() -> None:
    assert index_state.drift_words(Drift(None)) != index_state.drift_words(Drift(1))
    assert index_state.drift_words(Drift(1, demands=("x",))) == "No document changed, but the settings did."
    facts = index_state.status_facts(IndexStatus(None), "UTC")
    assert [fact.value for fact in facts if fact.label in ("Generation", "Documents", "Built")] == ["–", "–", "–"]


# ---------------------------------------------------------------- pace


def test_the_pace_is_of_the_present_step_alone() -> None:
    began = START + timedelta(seconds=100)
    one = fake_rebuild.run(
        log=(RunLogLine(START, "scan", "a"), RunLogLine(began, "fill", "b"), RunLogLine(began, "fill", "c")),
        stage="fill",
        done=30,
        total=120,
    )
    found = pace.pace(one, began + timedelta(seconds=10))
    assert found == pace.Pace(30 / 120, 30 / 10, (120 - 30) / (30 / 10))
    assert pace.words(one, began + timedelta(seconds=10)) == "30 of 120 · 3.0 a second · 30 s left"


@pytest.mark.parametrize("values", [{"done": None}, {"total": None}, {"total": 0}, {"total": -1}])
def test_a_pace_that_cannot_be_told_is_none_and_not_infinite(values: dict[str, int | None]) -> None:
    assert pace.pace(fake_rebuild.run(**values), START + timedelta(seconds=9)) == pace.Pace()


def test_a_clock_that_stands_before_the_start_gives_no_rate() -> None:
    found = pace.pace(fake_rebuild.run(), START - timedelta(seconds=5))
    assert (found.fraction, found.per_second, found.seconds_left) == (30 / 120, None, None)


def test_more_done_than_there_is_stays_within_the_bar() -> None:
    assert pace.pace(fake_rebuild.run(done=130, total=120), START + timedelta(seconds=1)).fraction == 1.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (-1, "–"),
        (0.42, "0.4 s"),
        (59.4, "59 s"),
        (185, "3 min 05 s"),
        (7620, "2 h 07 min"),
    ],
)
def test_durations_are_read_by_people(seconds: float | None, words: str) -> None:
    assert pace.span(seconds) == words
