"""The Trace page: any lookup by its id, or a whole session or run in order of time."""

import streamlit as st

from pages.parts import access, boxes, eval_promote, frame, lists, replay, result, services
from pages.parts.text import visible

PAGE = "trace"

user = access.require()
app = services.app_or_stop()
frame.head("Trace", "A lookup as it was recorded: the same pictures, from the stored trace.")

wanted = lists.search_box(PAGE)
if wanted.trace:
    view = services.call("This trace cannot be shown", services.view, app, wanted.trace)
    if view:
        st.text(visible(view.result.query, 1_000) or "The question is not stored.")
        result.draw(view, page=PAGE)
        eval_promote.draw(user, view.result, PAGE)
        replay.draw(app, wanted.trace, user.name, PAGE)
elif wanted.session or wanted.run:
    lists.events(app, wanted, PAGE)
else:
    boxes.empty("No trace chosen", "Give an id above, or choose one of the latest below.")
lists.recent(app, wanted, PAGE)
