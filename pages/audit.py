"""The Audit page: every recorded lookup, found by what became of it, and the proof that the record is whole."""

import streamlit as st

from pages.parts import (
    access,
    audit_chain,
    audit_export,
    audit_filters,
    audit_list,
    audit_record,
    audit_trends,
    frame,
    notice,
    services,
    views,
)

PAGE = "audit"

access.require()
app = services.app_or_stop()
zone = app.settings.audit.timezone
title, state = st.columns([4, 2], vertical_alignment="bottom")
with title:
    frame.head("Audit", "Every lookup as it was recorded, newest first.")
with state:
    audit_chain.outbox(app)
notice.draw(PAGE)

where = audit_filters.draw(app, PAGE, zone)
view = views.choose(PAGE, ("records", "trends", "chain"))
record = st.query_params.get(audit_list.RECORD, "")
if where is not None and view == "records":
    audit_list.draw(app, where, PAGE, zone)
    if record:
        audit_record.draw(app, where, record, PAGE, zone)
    audit_export.draw(app, where, PAGE, zone)
elif where is not None and view == "trends":
    audit_trends.draw(app, where, PAGE, zone)
elif view == "chain":
    audit_chain.draw(app, PAGE, zone)
