"""Helper functions for tests in a headless Chromium: start the browser, save screenshots, and check
accessibility with axe.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

#: Folder in which tests save screenshots of the pages, for a person to inspect. None: save no screenshots.
SCREENSHOTS = os.environ.get("CONFORMANCE_SCREENSHOTS")


def require_chromium() -> None:
    """Skip the test if Chromium or selenium is missing. Under ``nox -s browser`` raise RuntimeError instead
    of skipping.
    """
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    missing += [name for name in ("selenium",) if importlib.util.find_spec(name) is None]
    if missing and os.environ.get("CONFORMANCE_BROWSER") == "1":
        raise RuntimeError(f"{missing[0]} is not installed: apt-get install chromium chromium-driver")
    if missing:
        pytest.skip(f"{missing[0]} is not installed; run nox -s browser")


def start_chromium(profile: Path) -> Any:
    """Start a headless Chromium without background network traffic. Chromium stores its user profile in the
    folder ``profile``.
    """
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


def save_screenshot_if_requested(browser: Any, name: str) -> None:
    """Save a screenshot of the page if CONFORMANCE_SCREENSHOTS names a folder."""
    if SCREENSHOTS:
        Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(str(Path(SCREENSHOTS) / f"{name}.png"))


def emulate_color_scheme(browser: Any, dark: bool) -> None:
    """Emulate a user whose browser prefers dark pages, or light pages if ``dark`` is false."""
    features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def accessibility_violations(browser: Any) -> list[str]:
    """Return the accessibility rules that the page violates, as axe reports them. Skip the test if axe is not
    installed.
    """
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None or not spec.submodule_search_locations:
        if os.environ.get("CONFORMANCE_BROWSER") == "1":
            raise RuntimeError("axe is not installed: pip install --no-deps axe-playwright-python")
        pytest.skip("axe is not installed; run nox -s browser")
    # Of the package, only the script axe.min.js is used. The package's Python code controls Playwright and
    # not selenium.
    browser.execute_script((Path(spec.submodule_search_locations[0]) / "axe.min.js").read_text())
    report = browser.execute_async_script(
        "const done = arguments[0]; axe.run(document).then((found) => done(found.violations.map((rule) =>"
        "`${rule.id}: ${rule.nodes.length} × ${rule.nodes[0].html.slice(0, 200)} ` +"
        "rule.nodes[0].failureSummary.slice(0, 300))))"
    )
    assert isinstance(report, list)
    return report
