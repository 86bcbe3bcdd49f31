"""The Eval page: did a change make retrieval better or worse, and where?"""

import streamlit as st

from pages.parts import access, eval_run, eval_views, frame, notice, services

PAGE = "eval"

user = access.require()
app = services.app_or_stop()
title, choice, export = st.columns([5, 2, 1], vertical_alignment="bottom")
with title:
    frame.head("Eval", "Golden cases against what happened: failures first, and where the evidence was lost.")
notice.draw(PAGE)
with choice:
    mode = eval_views.mode(PAGE)
run = eval_views.run(mode, PAGE)
if run:
    eval_run.strip(run)
    eval_run.doubts(run, PAGE)
    with export:
        eval_run.exports(run, PAGE)
eval_views.draw(app, user, run, mode, PAGE)
