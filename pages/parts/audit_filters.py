"""The filters of the Audit page. The address holds them, so that a list can be shared; the widgets show the address.

A touched widget writes the address in its callback; an address that came from elsewhere fills the widgets before they
are drawn. A choice that makes no filter (an end before the start) is refused and the list stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from core.audit.columns import Status
from core.audit.params import TIMES
from core.audit.query import ANY, NONE, TEXT_CHARS, AuditFilter, Facets, Only, zone_info
from core.errors import BadInput
from core.model import AttemptName, EvidenceStatus, FallbackReason, Origin, RelevanceLevel
from pages.parts import notice, services
from pages.parts.notice import Notice
from pages.parts.text import one_line

if TYPE_CHECKING:
    from core.bootstrap import App

NAMES: Final = tuple(f.name for f in fields(AuditFilter))
PLACES: Final = ("before", "after", "oldest")
"""Parameters that name a page of the list; every new filter begins at the newest page."""
RANGES: Final = {
    "1 h": timedelta(hours=1),
    "24 h": timedelta(days=1),
    "7 d": timedelta(days=7),
    "30 d": timedelta(days=30),
}
FACET_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Field:
    """One condition: how its widget is labelled, and what it offers (None: free text). ``facet`` names what the record
    itself offers; ``free`` lets other values be typed; of ``many`` all that are chosen must hold."""

    name: str
    label: str
    options: tuple[str, ...] | None = None
    facet: str | None = None
    free: bool = False
    many: bool = False
    help: str = ""


def _values(kind: type[StrEnum]) -> tuple[str, ...]:
    return tuple(member.value for member in kind)


FIRST: Final = (
    Field("status", "Status", _values(Status), help="What became of the call."),
    Field("evidence_status", "Evidence", _values(EvidenceStatus), help="What the agent was told."),
    Field("relevance_level", "Level", (*_values(RelevanceLevel), NONE)),
    Field("attempt", "Attempt", (*_values(AttemptName), NONE), help="The attempt whose result was given."),
    Field("fallback", "Fallback", (ANY, *_values(FallbackReason), NONE)),
    Field("tool", "Tool", (), "tool", free=True),
)
MORE: Final = (
    Field("session", "Session"),
    Field("run", "Run"),
    Field("trace", "Trace id"),
    Field("scope", "Scope", (), "scope", free=True, help="One scope among those of the lookup."),
    Field("language", "Language", (), "language"),
    Field("generation", "Generation", (), "generation", free=True),
    Field("model", "Model", (), "model", free=True, help="Embedding profile."),
    Field("reranker", "Reranker", (), "reranker", free=True),
    Field("origin", "Origin", _values(Origin)),
    Field("degraded", "Degraded", ("yes", "no"), help="A branch or the reranker failed, the lookup went on."),
    Field("only", "Only where", _values(Only), many=True),
    Field("error", "Error class", (), "error", free=True),
    Field("min_ms", "At least, ms"),
    Field("max_ms", "At most, ms"),
)


@st.cache_data(ttl=FACET_SECONDS, max_entries=4, show_spinner=False)
def _facets(_app: App) -> Facets:
    return _app.audit_log.facets()


def current(zone: str) -> AuditFilter:
    """The filter of the address. Raises BadInput."""
    return AuditFilter.from_params(st.query_params.to_dict(), zone)


def draw(app: App, page: str, zone: str) -> AuditFilter | None:
    """The widgets, filled from the address; the filter, or None when the address holds none that can be used."""
    where: AuditFilter | None = services.call("This address holds no filter", current, zone)
    _seed(where or AuditFilter(), page, zone)
    offered = _offered(app)
    search, since, until, quick = st.columns([4.4, 2.6, 2.6, 3.8], vertical_alignment="bottom")
    told: dict[str, Any] = {"on_change": _apply, "args": (page, zone)}
    search.text_input(
        "Text",
        key=f"{page}.text",
        max_chars=TEXT_CHARS,
        placeholder="in what is stored: query (if in full), documents, ids, errors",
        help="Looked for in what is stored, without regard to case. Under redaction no question and no excerpt is.",
        **told,
    )
    oldest, latest = datetime(2000, 1, 1), datetime(2100, 1, 1)
    for column, name, label in ((since, "since", "From"), (until, "until", "Before")):
        column.datetime_input(
            f"{label} ({zone})",
            value=None,
            key=f"{page}.{name}",
            min_value=oldest,
            max_value=latest,
            step=60,
            format="YYYY-MM-DD",
            **told,
        )
    with quick.container(horizontal=True, gap="xxsmall"):
        st.button("Clear all", key=f"{page}.clear", on_click=clear, args=(page,), icon=":material/filter_alt_off:")
        for label in RANGES:
            st.button(label, key=f"{page}.range.{label}", on_click=_range, args=(label,), help=f"The last {label}.")
    for column, field in zip(st.columns(len(FIRST)), FIRST, strict=True):
        with column:
            _widget(field, offered, page, told)
    used = sum(st.query_params.get(field.name, "") != "" for field in MORE)
    with st.expander(f"More filters ({used} set)" if used else "More filters", key=f"{page}.more"):
        for start in range(0, len(MORE), 7):
            for column, field in zip(st.columns(7), MORE[start : start + 7], strict=False):
                with column:
                    _widget(field, offered, page, told)
    return where


def _widget(field: Field, offered: Facets, page: str, told: dict[str, Any]) -> None:
    key = f"{page}.{field.name}"
    if field.options is None:
        st.text_input(field.label, key=key, help=field.help or None, **told)
        return
    options = [*field.options, *(str(v) for v in (getattr(offered, field.facet) if field.facet else ()))]
    if field.many:
        st.multiselect(field.label, options, placeholder="any", key=key, help=field.help or None, **told)
        return
    now = st.session_state.get(key)
    if now and now not in options:  # the address may name what the newest records do not have
        options.append(now)
    st.selectbox(
        field.label,
        options,
        index=None,
        placeholder="any",
        format_func=lambda value: one_line(value, 60),
        accept_new_options=field.free,
        key=key,
        help=field.help or None,
        **told,
    )


def _offered(app: App) -> Facets:
    """What select boxes offer; nothing when it cannot be read (the list says why)."""
    try:
        return _facets(app)
    except Exception:  # noqa: BLE001 - typed values still work, and the list below shows the failure
        return Facets()


# ---------------------------------------------------------------- address and widgets


def _seed(where: AuditFilter, page: str, zone: str) -> None:
    """Fills the widgets when the address is another than the one they show."""
    slot, address = f"{page}.address", tuple(sorted(where.to_params().items()))
    if st.session_state.get(slot) == address and f"{page}.text" in st.session_state:
        return
    st.session_state[slot] = address
    given = where.to_params()
    for name in NAMES:
        value = getattr(where, name)
        if isinstance(value, datetime):
            value = value.astimezone(zone_info(zone)).replace(tzinfo=None, second=0, microsecond=0)
        elif name == "only":
            value = [one.value for one in where.only]
        elif name not in TIMES:
            value = given.get(name, "" if _is_text(name) else None)
        st.session_state[f"{page}.{name}"] = value


def _is_text(name: str) -> bool:
    return name == "text" or any(field.name == name and field.options is None for field in MORE)


def _apply(page: str, zone: str) -> None:
    """The address of what the widgets show."""
    params: dict[str, str] = {}
    for name in NAMES:
        value = st.session_state.get(f"{page}.{name}")
        if isinstance(value, datetime):
            params[name] = _exact(name, value, zone)
        elif isinstance(value, list):
            params[name] = ",".join(value)
        elif value not in (None, ""):
            params[name] = str(value)
    try:
        where = AuditFilter.from_params(params, zone)
    except BadInput as exc:
        notice.put(page, Notice(False, "This is no filter; the list is unchanged", str(exc)))
        return
    notice.clear(page)
    go(where)
    st.session_state[f"{page}.address"] = tuple(sorted(where.to_params().items()))


def _exact(name: str, shown: datetime, zone: str) -> str:
    """The moment that a widget shows to the minute: as precise as the address where that is the same minute."""
    text = st.query_params.get(name, "")
    try:
        known = datetime.fromisoformat(text).astimezone(zone_info(zone)).replace(tzinfo=None) if text else None
    except ValueError:
        known = None
    return text if known and known.replace(second=0, microsecond=0) == shown else shown.isoformat()


def _range(label: str) -> None:
    """The last hours or days, as a fixed moment: a shared address keeps showing the same records."""
    try:
        where = current("UTC")
    except BadInput:
        where = AuditFilter()
    since = (datetime.now(UTC) - RANGES[label]).replace(second=0, microsecond=0)
    params = {**where.to_params(), "since": since.isoformat()}
    params.pop("until", None)
    go(AuditFilter.from_params(params))


def go(where: AuditFilter, **others: str | None) -> None:
    """Makes ``where`` the filter of the address, at its newest page. ``others`` are further parameters; None removes
    one, what is not named stays."""
    kept = {k: v for k, v in st.query_params.to_dict().items() if k not in (*NAMES, *PLACES)}
    told = {**kept, **where.to_params(), **others}
    st.query_params.from_dict({k: v for k, v in told.items() if v is not None})


def clear(page: str) -> None:
    """No condition at all."""
    notice.clear(page)
    go(AuditFilter())
