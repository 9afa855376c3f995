"""Send a callback to PyTorch's relay, with the OIDC token of the job.

The token is read from an environment variable and sent in one header. No message, exception or output
contains the token. Redirects are not followed, because they could send the token to a different server.
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

#: The default environment variable of the token. The relay's own reporter uses the same variable.
TOKEN = "OIDC_TOKEN"
#: Time limits in seconds: for one socket operation, and for the whole exchange.
SECONDS, DEADLINE = 10.0, 30.0
_ANSWER = 10_000


@dataclasses.dataclass(frozen=True)
class RelayResponse:
    """The response of the relay.

    ``accepted`` is False if the relay ignored the callback, because the relay's allowlist does not have this
    repository at level L2 or above.
    """

    status: int
    accepted: bool
    text: str


class RelayUnavailable(Exception):
    """The relay did not respond, or had an internal error."""


class _NoRedirectHandler(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None, so that redirects are not followed."""


def send_callback(
    body: Callback, url: str, variable: str = TOKEN, *, deadline: float = DEADLINE
) -> RelayResponse:
    """Post a callback to the relay.

    Returns:
        The response of the relay, which accepted or ignored the callback.

    Raises:
        UsageError: the address or the token is invalid, or the relay rejected the callback.
        Unavailable: the relay did not respond in time, or had an internal error.
    """
    token = os.environ.get(variable, "").strip()
    if not token:
        raise UsageError(f"variable {variable} contains no token; request one in the job")
    if not token.isascii() or re.search(r"[\s\x00-\x1f\x7f]", token):
        raise UsageError(f"variable {variable} does not contain a valid token; request one in the job")
    if not re.fullmatch(r"https://[^\s/@?#]+(/\S*)?", url) and not _is_local(url):
        raise UsageError(f"address {url!r} is not an https address; give the address of the relay's callback")
    request = urllib.request.Request(
        url,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
        method="POST",
    )
    status, response_body = _status_and_body_before_deadline(request, url, deadline)
    response_text = printable(response_body.decode(errors="replace")).replace(token, "<token>").strip()[:300]
    if 200 <= status < 300:
        return RelayResponse(status, not _does_relay_ignore_repository(response_body), response_text)
    if status >= 500:
        raise RelayUnavailable(
            f"the relay at {url} has an internal error (HTTP {status}); the run itself is valid"
        )
    raise UsageError(f"the relay at {url} rejected the callback (HTTP {status}: {response_text}); correct it")


def _is_local(url: str) -> bool:
    """Return True for an address of this machine, which is allowed without https for tests."""
    return re.fullmatch(r"http://(127\.0\.0\.1|localhost)(:\d+)?(/\S*)?", url) is not None


def _status_and_body_before_deadline(
    request: urllib.request.Request, url: str, deadline: float
) -> tuple[int, bytes]:
    """Return the status and the body of the response.

    A thread enforces the deadline, because each received byte restarts the time limit of a socket.
    """
    outcomes: list[tuple[int, bytes] | BaseException] = []

    def append_outcome() -> None:
        try:
            outcomes.append(_status_and_body(request))
        except BaseException as error:
            outcomes.append(error)

    thread = threading.Thread(target=append_outcome, daemon=True)
    thread.start()
    thread.join(deadline)
    if not outcomes:
        raise RelayUnavailable(f"the relay at {url} did not respond within {deadline:g} seconds")
    (outcome,) = outcomes
    if isinstance(outcome, (OSError, http.client.HTTPException, ValueError)):
        reason = getattr(outcome, "reason", outcome)
        timed_out = isinstance(reason, (TimeoutError, socket.timeout))
        # Report only the name of the error, because its text may quote the request with the token.
        why = "no response in time" if timed_out else type(reason).__name__
        raise RelayUnavailable(f"the relay at {url} cannot be reached ({why})") from None
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _status_and_body(request: urllib.request.Request) -> tuple[int, bytes]:
    opener = urllib.request.build_opener(_NoRedirectHandler)
    try:
        with opener.open(request, timeout=SECONDS) as response:
            return response.status, _read_limited(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _read_limited(error)


def _read_limited(response: IO[bytes]) -> bytes:
    return response.read(_ANSWER)


def _does_relay_ignore_repository(response_body: bytes) -> bool:
    """Return True if the response says that the relay ignores callbacks of this repository."""
    try:
        content = json.loads(response_body)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("status") == "ignored"
