"""Starts the console: ``python -m pages.parts.launch [streamlit options]``. ``streamlit run app.py`` works too.

What this adds: the stores and models are opened and warmed before the first visitor comes, and an address that is opened
first on a fresh server is known. Streamlit takes a folder ``pages/`` for its older kind of application until ``app.py`` has
run once; a shared address would be met by "Page not found".
"""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path

from streamlit.runtime.pages_manager import PagesManager
from streamlit.web import cli

from core.errors import RagError, redact

ENTRY = Path(__file__).resolve().parent.parent.parent / "app.py"


def main(options: list[str]) -> None:
    """Serves until it is interrupted."""
    PagesManager.uses_pages_directory = False
    threading.Thread(target=_open, name="open", daemon=True).start()
    sys.argv = ["streamlit", "run", str(ENTRY), *options]
    cli.main()


def _open() -> None:
    """A failure is no reason not to serve: the page names it, and tries again."""
    logging.getLogger("streamlit.runtime.scriptrunner_utils.script_run_context").setLevel(logging.ERROR)
    from pages.parts import services

    try:
        services.app()
    except RagError as exc:
        print(f"the stores cannot be opened yet: {redact(exc)}", file=sys.stderr)  # noqa: T201 - the server's own output


if __name__ == "__main__":
    main(sys.argv[1:])
