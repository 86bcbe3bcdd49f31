import hashlib
import json
from dataclasses import replace

import pytest

from core.audit.redaction import HIDDEN, redact_answer, redact_result, text_hash
from core.codec import to_json
from core.model import StageStatus
from tests.unit.audit.audit_samples import QUERY, TEXT, TITLE, failed, result

SPOKEN = ("断路器", "OOM", "OutOfMemory", "𠮷", "breaker", "📅", "日志")


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("content", ["redacted", "none"])
def test_no_word_of_query_or_document_is_left(content: str) -> None:
    text = to_json(redact_result(result(), content))
    assert [word for word in SPOKEN if word in text] == []


def test_keys_ranks_scores_hashes_counts_and_times_stay() -> None:
    before, after = result(), redact_result(result(), "redacted")
    kept = after.retrieval_trace.attempts[0].candidates
    for old, new in zip(before.retrieval_trace.attempts[0].candidates, kept, strict=True):
        expected = replace(old, title="", breadcrumb="", content=None, hit_reasons=("dense", "alias"))
        assert new == expected
    assert after.evidence[0].evidence_key == "a#chunk-0"
    assert after.evidence[0].quality_score == 0.9
    assert after.context_pack is not None
    assert after.context_pack.used_chars == len(TEXT)
    assert after.retrieval_trace.timings == before.retrieval_trace.timings
    assert after.retrieval_trace.plan is not None
    assert after.retrieval_trace.plan.l0.domain_hints == ("ops",)


def test_full_changes_nothing() -> None:
    assert redact_result(result(), "full") == result()


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(ValueError, match="some"):
        redact_result(result(), "some")


def test_the_agents_answer_is_kept_by_hash_and_length() -> None:
    answer = result().tool_result
    assert answer is not None
    data = redact_answer(answer)
    assert data["query"] == {"sha256": sha(QUERY), "chars": len(QUERY)}
    assert data["evidence"][0]["excerpt"] == {"sha256": sha(TEXT), "chars": len(TEXT)}
    assert data["evidence"][0]["title"] == {"sha256": sha(TITLE), "chars": len(TITLE)}
    assert data["evidence"][0]["document_id"] == "a#chunk-0"
    assert data["returned_count"] == 1
    assert TEXT not in json.dumps(data, ensure_ascii=False)


def test_messages_lose_the_query_and_credentials() -> None:
    message = f"endpoint said: cannot embed '{QUERY}' with api_key=sk-123456 for canary-7"
    after = redact_result(failed("ModelUnavailable", message), "redacted", secrets=("canary-7",))
    assert after.message == f"endpoint said: cannot embed '{HIDDEN}' with api_key=*** for ***"


def test_reasons_of_stages_and_branches_lose_the_query_too() -> None:
    whole = result()
    attempt = whole.retrieval_trace.attempts[0]
    broken = replace(attempt.branches[0], status=StageStatus.ERROR, reason=f"no hit for {QUERY}")
    stage = replace(attempt.stages[0], status=StageStatus.ERROR, reason=f"no hit for {QUERY}")
    attempt = replace(attempt, branches=(broken,), stages=(stage,), degraded=(f"dense: no hit for {QUERY}",))
    whole = replace(whole, retrieval_trace=replace(whole.retrieval_trace, attempts=(attempt,)))
    (kept,) = redact_result(whole, "redacted").retrieval_trace.attempts
    assert kept.branches[0].reason == kept.stages[0].reason == f"no hit for {HIDDEN}"
    assert kept.degraded == (f"dense: no hit for {HIDDEN}",)


def test_a_query_longer_than_the_result_holds_is_found_in_messages_by_its_whole_text() -> None:
    asked = QUERY + " tail"
    after = redact_result(failed("StoreUnavailable", f"refused: {asked}"), "redacted", query=asked)
    assert after.message == f"refused: {HIDDEN}"


def test_a_query_of_one_letter_does_not_tear_messages_apart() -> None:
    after = redact_result(replace(failed("StoreUnavailable", "a store is away"), query="a"), "redacted", query="a")
    assert after.message == "a store is away"


def test_a_result_without_pack_plan_or_answer_is_redacted_too() -> None:
    bare = replace(result(plan=None, attempts=()), context_pack=None, tool_result=None, evidence=())
    after = redact_result(bare, "none")
    assert (after.query, after.context_pack, after.tool_result) == ("", None, None)


def test_the_hash_of_a_text_takes_half_a_character_too() -> None:
    assert text_hash("a") == sha("a")
    assert text_hash("\ud83d") != text_hash("\ud83e")
