"""The console: ``streamlit run app.py``. Frame and navigation, nothing else."""

import streamlit as st

from pages.parts import frame

st.set_page_config(page_title="Knowledge lookup console", layout="wide")
start = st.Page(frame.start, title="Start", url_path="start", default=True, visibility="hidden")
st.navigation([start, *(frame.page(spec) for spec in frame.PAGES)], position="top").run()
