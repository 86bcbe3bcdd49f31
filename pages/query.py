"""The Query page: one question, and why each candidate stands where it stands."""

import streamlit as st

from pages.parts import access, asking, boxes, eval_promote, frame, history, result, services, workbench

PAGE = "lookup"

user = access.require()
app = services.app_or_stop()
title, earlier = st.columns([5, 1], vertical_alignment="bottom")
with title:
    frame.head("Query", "What the agent would see for a question, and every rank on the way there.")
with earlier:
    history.draw(app, PAGE)
services.warming(app)

asked = st.query_params.get("trace") or asking.slot().trace_id
view = services.call("This result cannot be shown", services.view, app, asked) if asked else None
if view:
    asking.prefill(view.result, PAGE)
question = asking.form(app.settings, services.scopes(app), PAGE)
if question:
    with st.spinner("Looking up…"):
        view = services.call("Not looked up", asking.answer, question, app.lookup.lookup, actor=user.name)
if view:
    st.query_params["trace"] = view.result.trace_id

if view:
    result.draw(view, page=PAGE)
    eval_promote.draw(user, view.result, PAGE)
    workbench.expected(app, view, PAGE)
elif not asked and not question:
    boxes.empty("No question yet", "Type one above and press Enter. Every result has an address that can be shared.")
workbench.inspector(app, PAGE)
