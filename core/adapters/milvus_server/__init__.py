"""One detached loopback server per Milvus Lite file, shared by every process that uses the file."""

from core.adapters.milvus_server.control import ensure, serve_foreground, status, stop
from core.adapters.milvus_server.record import ServerStatus

__all__ = ["ServerStatus", "ensure", "serve_foreground", "status", "stop"]
