"""``ci.relay_client`` sends reports to the relay. A rejected report is an error, a relay that does not
respond is not an error, and no message contains the token.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from typing import ClassVar

import pytest

from conformance import cli
from conformance.ci import relay_client
from conformance.errors import UsageError
from tests.support.sample_passing_leg import fixed_suite_digest, leg, write_output_folder

TOKEN = "eyJ-very-secret.token"


class FakeRelayHandler(http.server.BaseHTTPRequestHandler):
    """HTTP handler of a fake relay. It records requests, and sends the response that the test sets."""

    status, answer, headers_sent, wait = 200, b'{"ok": true, "status": "completed"}', {}, 0.0
    seen = None

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).seen.append((self.path, dict(self.headers), content))
        time.sleep(self.wait)
        with contextlib.suppress(OSError):
            self.send_response(self.status)
            for key, value in self.headers_sent.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(self.answer)

    def log_message(self, *_):
        pass


@pytest.fixture
def fake_relay(monkeypatch):
    class HandlerOfThisTest(FakeRelayHandler):
        seen: ClassVar[list] = []

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), HandlerOfThisTest)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    monkeypatch.setenv("OIDC_TOKEN", TOKEN)
    HandlerOfThisTest.url = f"http://127.0.0.1:{server.server_port}/callback"
    yield HandlerOfThisTest
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_accepted_callback(fake_relay):
    answer = relay_client.send_callback({"workflow": "é"}, fake_relay.url)
    assert answer.accepted and answer.status == 200
    ((path, headers, content),) = fake_relay.seen
    assert path == "/callback" and json.loads(content) == {"workflow": "é"}
    assert headers["Authorization"] == f"Bearer {TOKEN}"
    assert headers["Content-Type"] == "application/json"


def test_a_callback_that_the_relay_ignores(fake_relay):
    fake_relay.answer = b'{"ok": true, "status": "ignored"}'
    assert not relay_client.send_callback({}, fake_relay.url).accepted
    for reply in (b"", b"[1]", b"\xff", b"[" * 9000):
        fake_relay.answer = reply
        assert relay_client.send_callback({}, fake_relay.url).accepted


@pytest.mark.parametrize("status", [400, 403, 413, 429])
def test_a_rejected_callback_is_an_error_without_the_token(status, fake_relay):
    fake_relay.status, fake_relay.answer = status, f"no dispatch\x1b[31m for {TOKEN}".encode()
    with pytest.raises(UsageError, match=f"rejected the callback .HTTP {status}: no dispatch") as caught:
        relay_client.send_callback({}, fake_relay.url)
    assert TOKEN not in str(caught.value) and "\x1b" not in str(caught.value)


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_error_of_the_relay_is_unavailable(status, fake_relay):
    fake_relay.status = status
    with pytest.raises(relay_client.RelayUnavailable, match=f"HTTP {status}"):
        relay_client.send_callback({}, fake_relay.url)


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirection_is_not_followed(status, fake_relay):
    fake_relay.status, fake_relay.headers_sent = status, {"Location": f"{fake_relay.url}/elsewhere"}
    with pytest.raises(UsageError, match=f"HTTP {status}"):
        relay_client.send_callback({}, fake_relay.url)
    assert len(fake_relay.seen) == 1


def test_a_slow_relay_is_unavailable_after_the_timeout(fake_relay):
    fake_relay.wait = 5
    began = time.monotonic()
    with pytest.raises(relay_client.RelayUnavailable, match=r"did not respond within 0\.2 seconds"):
        relay_client.send_callback({}, fake_relay.url, deadline=0.2)
    assert time.monotonic() - began < 3


def test_an_unreachable_relay_is_unavailable(monkeypatch):
    monkeypatch.setenv("OIDC_TOKEN", TOKEN)
    with pytest.raises(relay_client.RelayUnavailable, match=r"cannot be reached \(ConnectionRefusedError"):
        relay_client.send_callback({}, "http://127.0.0.1:9/x")


@pytest.mark.parametrize("token", ["", " ", "a b", "a\nX-Other: b", "ü"])
def test_variables_without_a_token(token, monkeypatch):
    monkeypatch.setenv("MINE", token)
    with pytest.raises(UsageError, match=r"variable MINE .* token") as caught:
        relay_client.send_callback({}, "https://x", "MINE")
    assert not token.strip() or token not in str(caught.value)


@pytest.mark.parametrize("url", ["http://x.org/y", "file:///etc/passwd", "https://", "https://a@b/c", "x"])
def test_the_token_is_sent_only_to_https_addresses(url, monkeypatch):
    monkeypatch.setenv("OIDC_TOKEN", TOKEN)
    with pytest.raises(UsageError, match="not an https address"):
        relay_client.send_callback({}, url)


def test_the_relay_command(fake_relay, tmp_path, capsys):
    with fixed_suite_digest():
        bringup_leg = leg("bringup")
        bringup_leg["facts"]["torch"]["revision"] = "a" * 40
        write_output_folder(tmp_path / "run", bringup_leg)
    arguments = ["relay", str(tmp_path / "run"), "-o", str(tmp_path / "relay.json"), "--name", "n"]
    arguments += ["--url", "https://x", "--run-id", "1", "--send", fake_relay.url]
    assert cli.main(arguments) == 0
    assert json.loads(fake_relay.seen[0][2]) == json.loads((tmp_path / "relay.json").read_text())
    fake_relay.status = 503
    assert cli.main(arguments) == 0
    fake_relay.status, fake_relay.answer = 200, b'{"status": "ignored"}'
    assert cli.main(arguments) == 0
    fake_relay.status = 400
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    sent_lines = [line for line in out.splitlines() if "sent" in line]
    assert sent_lines[0] == "sent: HTTP 200" and sent_lines[1].startswith("not sent: the relay at http")
    assert sent_lines[2].startswith("sent, but ignored") and "rejected the callback" in err
    assert TOKEN not in out + err
