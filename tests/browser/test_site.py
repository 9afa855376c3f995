"""The site in a headless Chromium: filters, links, keyboard, and a narrow screen. No page has an error in the
console or makes an external request.

The tests need Debian's ``chromium`` and ``chromium-driver``, and selenium. The session ``nox -s browser``
fails if they are missing.
"""

from __future__ import annotations

import functools
import http.server
import json
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from conformance import cli
from conformance.results import document
from tests.browser.chromium import save_screenshot_if_requested
from tests.support.sample_site_runs import (
    TODAY,
    failing_leg,
    matrix_table,
    provenance_of_night,
    refused_leg,
    site_leg,
)

pytest.importorskip("selenium", reason="selenium is not installed; run nox -s browser")

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait


@pytest.fixture(scope="module")
def site_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a site with matrix cells of every state on this machine, and return its address."""
    folder = tmp_path_factory.mktemp("site")
    hostile = "</td><script>document.title = 'taken'</script>"
    ours = {"device": "hpu", "simulated": True}
    runs = {
        ("hpu-reference", "r1"): [
            site_leg(started="2026-01-05T00:00:00+00:00", **ours),
            site_leg(mode="compile", kind="fork-like", **ours),
        ],
        ("hpu-reference", "r2"): [
            failing_leg(site_leg(**ours), 0, message=hostile),
            refused_leg(**ours),
            site_leg(mode="graph", **ours),
        ],
        ("cpu", "old"): [site_leg(started="2025-11-01T00:00:00+00:00")],
        ("torch-npu", "ancient"): [site_leg(started="2025-01-01T00:00:00+00:00", device="npu")],
        ("torch-mlu", "cut"): [{**site_leg(device="mlu"), "complete": False, "exit": 3}],
    }
    for (backend, run), legs in runs.items():
        run_folder = folder / "results" / backend / run
        run_folder.mkdir(parents=True)
        document.write_results(run_folder / "results.json", document.results_document(legs))
    for run, day, missing in (("n1", 7, ()), ("n2", 8, ("graph",))):
        modes = [mode for mode in ("compile", "graph") if mode not in missing]
        legs = [site_leg(mode=mode, started=f"2026-01-0{day}T00:00:00+00:00") for mode in modes]
        run_folder = folder / "results" / "cpu" / run
        run_folder.mkdir()
        document.write_results(run_folder / "results.json", document.results_document(legs))
        (run_folder / "provenance.json").write_text(json.dumps(provenance_of_night(day)))
        (run_folder / "matrix.json").write_text(json.dumps(matrix_table(*legs, missing=missing)))
    options = ["--today", TODAY, "--our-repository", "o/suite"]
    assert cli.main(["site", str(folder / "results"), "-o", str(folder / "out"), *options]) == 0
    handler = functools.partial(SilentRequestHandler, directory=str(folder / "out"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


class SilentRequestHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def matrix_page(browser: webdriver.Chrome, site_address: str) -> Iterator[webdriver.Chrome]:
    """Open the page of the matrix. After the test, assert that the browser's console is empty and that the
    page made no external request.
    """
    browser.get_log("performance")
    browser.get(f"{site_address}/index.html")
    yield browser
    assert browser.get_log("browser") == []
    requested = [
        entry["message"].partition('"url":"')[2].partition('"')[0]
        for entry in browser.get_log("performance")
        if "Network.requestWillBeSent" in entry["message"]
    ]
    assert requested and all(url.startswith((site_address, "data:")) for url in requested if url), requested
    browser.set_window_size(1200, 900)


def visible_rows(browser: webdriver.Chrome) -> list[str]:
    """Return the backend and the mode of each visible row of the matrix."""
    return [
        f"{row.get_attribute('data-backend')} {row.get_attribute('data-mode')}".strip()
        for row in browser.find_elements(By.CSS_SELECTOR, "#matrix tbody tr")
        if row.is_displayed()
    ]


def test_every_cell_state_is_shown_and_looks_different(matrix_page):
    states = {
        cell.get_attribute("data-state"): cell.find_element(By.CLASS_NAME, "state")
        for cell in matrix_page.find_elements(By.CSS_SELECTOR, "td[data-state]")
    }
    assert set(states) == {"pass", "fail", "incomplete", "refused", "stale", "retired", "missing", "unknown"}
    looks = {
        tuple(
            mark.value_of_css_property(css_property)
            for css_property in ("background-color", "border-top-style", "text-decoration-line")
        )
        for mark in states.values()
    }
    assert len(looks) == len(states)
    save_screenshot_if_requested(matrix_page, "matrix")


def test_an_outdated_site_shows_a_note(matrix_page):
    # The page's own script adds the note, which takes a moment on a busy machine.
    note = WebDriverWait(matrix_page, 20).until(lambda driver: driver.find_element(By.CLASS_NAME, "outdated"))
    assert note.is_displayed() and f"on {TODAY}, and not since" in note.text


def test_filters_hide_rows(matrix_page):
    everything = visible_rows(matrix_page)
    field = matrix_page.find_element(By.ID, "backend")
    field.send_keys("reference")
    assert visible_rows(matrix_page) and all("Reference HPU" in row for row in visible_rows(matrix_page))
    Select(matrix_page.find_element(By.ID, "mode")).select_by_visible_text("graph")
    assert [row.rpartition(" ")[2] for row in visible_rows(matrix_page)] == ["graph"]
    field.send_keys("no such backend")
    assert visible_rows(matrix_page) == []
    assert matrix_page.find_element(By.ID, "nothing").is_displayed()
    field.clear()
    field.send_keys(" ", Keys.BACKSPACE)
    Select(matrix_page.find_element(By.ID, "mode")).select_by_visible_text("all")
    assert visible_rows(matrix_page) == everything
    Select(matrix_page.find_element(By.ID, "state")).select_by_visible_text("fail")
    assert visible_rows(matrix_page) == ["Reference HPU (simulated) eager"]


def test_the_filter_of_builds_hides_columns(matrix_page):
    builds = Select(matrix_page.find_element(By.ID, "build"))
    builds.select_by_visible_text("2.13.0+cpu fork-like")
    heads = [
        head
        for head in matrix_page.find_elements(By.CSS_SELECTOR, "thead th[data-build]")
        if head.is_displayed()
    ]
    assert len(heads) == 1 and "fork-like" in heads[0].text


def test_every_link_leads_to_an_existing_page_and_anchor(matrix_page):
    links = [
        link.get_attribute("href")
        for link in matrix_page.find_elements(By.CSS_SELECTOR, "main a, header a, footer a")
    ]
    assert len(links) > 10
    origin = matrix_page.current_url.rpartition("/")[0]
    for link in sorted(set(links)):
        if link.startswith(origin) and not link.partition("#")[0].endswith(".html"):
            with urllib.request.urlopen(
                link
            ) as answer:  # Chromium would also request an icon for a file without an icon link
                assert answer.status == 200
        elif link.startswith(origin):
            matrix_page.get(link)
            assert "Error response" not in matrix_page.page_source, link
            anchor = link.partition("#")[2]
            assert not anchor or matrix_page.find_elements(By.ID, anchor), link


def test_the_page_of_a_backend(matrix_page):
    matrix_page.find_element(By.LINK_TEXT, "Reference HPU (simulated)").click()
    # The results contain a script that would change the title if the browser executed it.
    assert matrix_page.title == "Reference HPU (simulated)"
    summary = matrix_page.find_element(By.CSS_SELECTOR, "details summary")
    summary.click()
    assert "document.title" in matrix_page.find_element(By.CSS_SELECTOR, "details").text
    assert matrix_page.find_element(By.XPATH, "//h3[starts-with(., 'Regressed since')]").is_displayed()
    save_screenshot_if_requested(matrix_page, "backend")


def test_the_site_works_with_the_keyboard_alone(matrix_page):
    body = matrix_page.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    assert matrix_page.switch_to.active_element.text == "Skip to the content"
    focused = []
    for _ in range(8):
        matrix_page.switch_to.active_element.send_keys(Keys.TAB)
        active = matrix_page.switch_to.active_element
        focused.append(active.get_attribute("id") or active.get_attribute("aria-label") or active.text)
        assert active.value_of_css_property("outline-style") != "none", focused
    assert focused[3:8] == ["backend", "mode", "build", "state", "Matrix"]
    matrix_page.switch_to.active_element.send_keys(Keys.ENTER)


def test_no_page_is_wider_than_a_narrow_screen(matrix_page):
    matrix_page.set_window_size(500, 800)
    for path in ("index.html", "backends/hpu-reference.html"):
        matrix_page.get(f"{matrix_page.current_url.partition('/index')[0].partition('/backends')[0]}/{path}")
        wide, screen = matrix_page.execute_script(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert wide <= screen, (path, wide, screen)
        save_screenshot_if_requested(matrix_page, f"narrow-{path.rpartition('/')[2].removesuffix('.html')}")


def test_without_scripts_all_rows_are_shown(matrix_page):
    matrix_page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        matrix_page.refresh()
        assert not matrix_page.find_element(By.CLASS_NAME, "filters").is_displayed()
        assert len(visible_rows(matrix_page)) > 8
    finally:
        matrix_page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
