"""Sending a callback to PyTorch's relay, with the token of the job's identity.

The token is read from a variable of the environment and goes into one header; no message, exception or output
has it. A redirection is not followed, since it could take the token elsewhere.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import re
import socket
import threading
import urllib.error
import urllib.request
from typing import IO, Any

from conformance.errors import UsageError
from conformance.model.verdicts import printable
from conformance.report.relay_callback import Callback

#: The variable that the relay's own reporter reads.
TOKEN = "OIDC_TOKEN"
#: Seconds for a connection or a part of an answer, and for the whole exchange.
SECONDS, DEADLINE = 10.0, 30.0
_ANSWER = 10_000


@dataclasses.dataclass(frozen=True)
class RelayResponse:
    """The relay's answer; ``taken`` is False if the repository is not on the allowlist at L2 or above."""

    status: int
    accepted: bool
    text: str


class Unavailable(Exception):
    """The relay did not answer, or failed; this is not the sender's fault."""


class _NoRedirectHandler(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow nothing."""


def send_callback(
    body: Callback, url: str, variable: str = TOKEN, *, deadline: float = DEADLINE
) -> RelayResponse:
    """Post a callback.

    Returns:
        The relay's answer, if it took the callback or left it aside.

    Raises:
        UsageError: the address or the token cannot be used, or the relay refused the callback.
        Unavailable: the relay could not be reached in time, or has a fault.
    """
    token = os.environ.get(variable, "").strip()
    if not token:
        raise UsageError(f"variable {variable} holds no token; let the job mint one for the relay")
    if not token.isascii() or re.search(r"[\s\x00-\x1f\x7f]", token):
        raise UsageError(f"variable {variable} holds something else than a token; let the job mint one")
    if not re.fullmatch(r"https://[^\s/@?#]+(/\S*)?", url) and not _is_local(url):
        raise UsageError(f"address {url!r} is not one of https; name that of the relay's callback")
    request = urllib.request.Request(
        url,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
        method="POST",
    )
    status, response_body = _exchange(request, url, deadline)
    response_text = printable(response_body.decode(errors="replace")).replace(token, "<token>").strip()[:300]
    if 200 <= status < 300:
        return RelayResponse(status, not _is_ignored(response_body), response_text)
    if status >= 500:
        raise Unavailable(f"the relay at {url} has a fault (HTTP {status}); nothing is wrong with the run")
    raise UsageError(f"the relay at {url} refused the callback (HTTP {status}: {response_text}); correct it")


def _is_local(url: str) -> bool:
    """Return True for an address of this machine, for trials."""
    return re.fullmatch(r"http://(127\.0\.0\.1|localhost)(:\d+)?(/\S*)?", url) is not None


def _exchange(request: urllib.request.Request, url: str, deadline: float) -> tuple[int, bytes]:
    """Status and body of the answer. A thread waits, since each byte resets a socket's own limit."""
    outcomes: list[tuple[int, bytes] | BaseException] = []

    def run() -> None:
        try:
            outcomes.append(_open(request))
        except BaseException as error:
            outcomes.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(deadline)
    if not outcomes:
        raise Unavailable(f"the relay at {url} did not answer within {deadline:g} seconds")
    (outcome,) = outcomes
    if isinstance(outcome, (OSError, http.client.HTTPException, ValueError)):
        reason = getattr(outcome, "reason", outcome)
        timed_out = isinstance(reason, (TimeoutError, socket.timeout))
        # The name of the error alone: its text may quote what was sent.
        why = "no answer in time" if timed_out else type(reason).__name__
        raise Unavailable(f"the relay at {url} cannot be reached ({why})") from None
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _open(request: urllib.request.Request) -> tuple[int, bytes]:
    opener = urllib.request.build_opener(_NoRedirectHandler)
    try:
        with opener.open(request, timeout=SECONDS) as response:
            return response.status, _read(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _read(error)


def _read(response: IO[bytes]) -> bytes:
    return response.read(_ANSWER)


def _is_ignored(response_body: bytes) -> bool:
    """Return True for the relay's answer to a repository that may not report."""
    try:
        content = json.loads(response_body)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("status") == "ignored"
