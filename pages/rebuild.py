"""The Rebuild page: what is active, what changed since, and the guarded ways to change it."""

import streamlit as st

from pages.parts import access, dry_run, frame, index_actions, index_view, job, notice, services

PAGE = "index"

user = access.require()
app = services.app_or_stop()
frame.head("Rebuild", "A new index without a gap: the old one answers until the new one is proven.")
seen = job.running(app)
busy = seen is not None
notice.draw(PAGE, over=not busy)
job.watch(app, user, seen, PAGE)

past = services.call("The history cannot be read", app.rebuild.history, limit=index_view.SHOWN)
if past and not busy:
    index_view.last(past[0], app.settings.audit.timezone)
status = services.call("The state of the index cannot be read", app.rebuild.status)
if status:
    index_view.active(status, app.settings.audit.timezone)
    left, right = st.columns([2, 3], gap="large")
    with left:
        index_view.drift(app, PAGE, busy=busy)
    with right:
        index_actions.draw(app, user, status, PAGE, busy=busy)
    dry_run.draw(app, PAGE)
    index_view.left_out(status, PAGE)
index_view.history(app, past, PAGE)
