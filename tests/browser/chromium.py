"""A headless Chromium for tests: start, screenshots, and the accessibility rules of axe."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

#: Folder for screenshots of the pages, if a person wants to inspect them.
SCREENSHOTS = os.environ.get("CONFORMANCE_SCREENSHOTS")


def require_chromium() -> None:
    """Skip the test if Chromium or selenium is missing. Under ``nox -s browser`` fail instead."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    missing += [name for name in ("selenium",) if importlib.util.find_spec(name) is None]
    if missing and os.environ.get("CONFORMANCE_BROWSER") == "1":
        raise RuntimeError(f"there is no {missing[0]}: apt-get install chromium chromium-driver")
    if missing:
        pytest.skip(f"there is no {missing[0]}; run nox -s browser")


def start(profile: Path) -> Any:
    """Start Chromium with its own profile and without background network traffic."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"):
        options.add_argument(f"--{flag}")
    options.add_argument("--disable-background-networking")
    options.add_argument("--disable-component-update")
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_window_size(1200, 900)
    return driver


def screenshot(browser: Any, name: str) -> None:
    """Save a screenshot of the page if screenshots are requested."""
    if SCREENSHOTS:
        Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(str(Path(SCREENSHOTS) / f"{name}.png"))


def dark(browser: Any, wanted: bool) -> None:
    """Emulate a user who prefers dark pages, or light pages."""
    features = [{"name": "prefers-color-scheme", "value": "dark" if wanted else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def violations(browser: Any) -> list[str]:
    """Return the accessibility rules of axe that the page violates. Skip if axe is not installed."""
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None or not spec.submodule_search_locations:
        if os.environ.get("CONFORMANCE_BROWSER") == "1":
            raise RuntimeError("there is no axe: pip install --no-deps axe-playwright-python")
        pytest.skip("axe is not installed; run nox -s browser")
    # Only the script of the package is used: the package would control a different browser.
    browser.execute_script((Path(spec.submodule_search_locations[0]) / "axe.min.js").read_text())
    report = browser.execute_async_script(
        "const done = arguments[0]; axe.run(document).then((found) => done(found.violations.map((rule) =>"
        "`${rule.id}: ${rule.nodes.length} × ${rule.nodes[0].html.slice(0, 200)} ` +"
        "rule.nodes[0].failureSummary.slice(0, 300))))"
    )
    assert isinstance(report, list)
    return report
