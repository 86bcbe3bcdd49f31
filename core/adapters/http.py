"""One way to ask an HTTP model server: deadline, retries inside it, one-line errors without secrets."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import httpx

from core.errors import DeadlineExceeded, ModelUnavailable, redact

_RETRY_STATUS = {408, 425, 429, 500, 502, 503, 504}
_MAX_TRIES = 3


class JsonClient:
    """POSTs JSON to one service. Thread-safe. ``name`` stands in messages, ``secrets`` never do."""

    def __init__(self, name: str, *, api_key: str = "", transport: httpx.BaseTransport | None = None) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._name = name
        self._secrets = (api_key,) if api_key else ()
        self._client = httpx.Client(headers=headers, transport=transport, follow_redirects=False)

    def post(self, url: str, body: Mapping[str, Any], *, timeout: float) -> Any:
        """The decoded answer. Connection errors and 408/425/429/5xx are tried again while ``timeout`` seconds last.

        Raises DeadlineExceeded when the time is up, ModelUnavailable for everything else that is no JSON of status 2xx.
        """
        end = time.monotonic() + timeout
        cause: Exception | None
        for attempt in range(1, _MAX_TRIES + 1):
            left = end - time.monotonic()
            if left <= 0:
                raise DeadlineExceeded(
                    f"{self._name}: no answer within {timeout:g} s; raise the time-out or mend the server"
                )
            try:
                answer = self._client.post(url, json=body, timeout=left)
            except httpx.TimeoutException as exc:
                raise DeadlineExceeded(
                    f"{self._name}: no answer within {timeout:g} s; raise the time-out or mend the server"
                ) from exc
            except (httpx.HTTPError, httpx.InvalidURL) as exc:
                problem, cause = self._line(f"cannot be reached ({redact(exc, self._secrets)})"), exc
            else:
                if answer.is_success:
                    return self._decode(answer)
                problem, cause = (
                    self._line(f"answered {answer.status_code} ({redact(answer.text, self._secrets)[:200]})"),
                    None,
                )
                if answer.status_code not in _RETRY_STATUS:
                    raise ModelUnavailable(problem)
            pause = 0.1 * 2**attempt
            if attempt == _MAX_TRIES or time.monotonic() + pause >= end:
                raise ModelUnavailable(problem) from cause
            time.sleep(pause)  # back-off between tries, inside the deadline
        raise AssertionError("unreachable")

    def close(self) -> None:
        self._client.close()

    def _decode(self, answer: httpx.Response) -> Any:
        try:
            return answer.json()
        except ValueError as exc:
            raise ModelUnavailable(self._line("answered something that is no JSON")) from exc

    def _line(self, text: str) -> str:
        return f"{self._name}: {text}; check its address and that it runs"
