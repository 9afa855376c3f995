"""The site's pages of operators, properties, results, queries and differences, in a headless Chromium."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from conformance import cli
from conformance.results import document
from tests.browser import chromium, screenshots
from tests.support.sample_site_runs import TODAY, failing_leg, site_leg

pytest.importorskip("selenium", reason="selenium is not installed; run nox -s browser")

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

HOSTILE = "</td><script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"
OURS = {"device": "hpu", "simulated": True}
Open = Callable[[str], Any]


@pytest.fixture(scope="module")
def site_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a site with three backends. The first backend passes, the second regressed in its
    fourth run, and the third has a single run, which fails.
    """
    folder = tmp_path_factory.mktemp("site")
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {
        ("cpu", "r1"): [site_leg(), site_leg(mode="compile")]
    }
    for night in range(5, 10):
        leg = site_leg(started=f"2026-01-0{night}T00:00:00+00:00", **OURS)
        runs[("hpu-reference", f"night-{night}")] = [
            failing_leg(leg, 0, message=HOSTILE) if night > 7 else leg
        ]
    runs[("torch-npu", "first")] = [failing_leg(site_leg(device="npu"), *range(1, 30))]
    for (backend, run), legs in runs.items():
        run_folder = folder / "results" / backend / run
        run_folder.mkdir(parents=True)
        document.write_results(run_folder / "results.json", document.results_document(legs))
    assert cli.main(["site", str(folder / "results"), "-o", str(folder / "out"), "--today", TODAY]) == 0
    return folder / "out"


class SilentRequestHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def site_address(site_folder: Path) -> Iterator[str]:
    handler = functools.partial(SilentRequestHandler, directory=str(site_folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture
def open_explore_view(browser: Any, site_address: str) -> Iterator[Open]:
    """Return a function that opens a view of the page ``explore.html`` and asserts the page's title.

    The results contain a script that would change the title if the browser executed it. After the test,
    assert that the console is empty and that the page made no external request.
    """
    browser.get_log("performance")

    def open_view(view: str) -> Any:
        browser.get("about:blank")
        browser.get(f"{site_address}/explore.html{view}")
        WebDriverWait(browser, 20).until(
            lambda page: page.find_element(By.ID, "view").text or page.find_element(By.ID, "mistake").text
        )
        assert browser.title == "Explore the results"
        return browser

    yield open_view
    assert browser.get_log("browser") == []
    requested = [
        entry["message"].partition('"url":"')[2].partition('"')[0]
        for entry in browser.get_log("performance")
        if "Network.requestWillBeSent" in entry["message"]
    ]
    assert requested and all(url.startswith((site_address, "about:")) for url in requested if url), requested
    browser.set_window_size(1200, 900)
    chromium.emulate_color_scheme(browser, False)


def regressed_result_id(site_folder: Path) -> str:
    feed = (site_folder / "feeds" / "hpu-reference.xml").read_text()
    return feed.partition("since run night-7: ")[2].partition("<")[0]


def view_text(page: Any) -> str:
    text: str = page.find_element(By.ID, "view").text
    return text


VIEWS = {
    "start": "",
    "operator": "#op=add",
    "property": "#property=value",
    "query": "#q=verdict%3Aunexpected",
    "mistake": "#q=verdict%3Afial",
    "difference": "#diff=",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", VIEWS)
def test_each_view_is_accessible(open_explore_view: Open, name: str, scheme: str) -> None:
    page = open_explore_view(VIEWS[name])
    chromium.emulate_color_scheme(page, scheme == "dark")
    chromium.save_screenshot_if_requested(page, f"explore-{name}-{scheme}")
    assert chromium.accessibility_violations(page) == []


def test_the_score_of_an_area_leads_to_its_results(browser: Any, site_address: str) -> None:
    browser.get(f"{site_address}/interop.html")
    rows = {
        row.find_element(By.TAG_NAME, "th").text: row.text
        for row in browser.find_elements(By.CSS_SELECTOR, "tbody tr")
    }
    assert "0 of 1 0 %" in rows["add"], "one of the three backends fails add"
    browser.find_element(By.LINK_TEXT, "add").click()
    WebDriverWait(browser, 10).until(lambda page: view_text(page).startswith("4 results of 2 names match"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index.html", "interop.html", "backends/hpu-reference.html"])
def test_the_other_pages_are_accessible(browser: Any, site_address: str, name: str, scheme: str) -> None:
    browser.get(f"{site_address}/{name}")
    chromium.emulate_color_scheme(browser, scheme == "dark")
    chromium.save_screenshot_if_requested(
        browser, f"site-{name.rpartition('/')[2].removesuffix('.html')}-{scheme}"
    )
    assert chromium.accessibility_violations(browser) == []
    chromium.emulate_color_scheme(browser, False)


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("index", "index.html"),
        ("green", "backends/cpu.html"),
        ("regression", "backends/hpu-reference.html"),
        ("new", "backends/torch-npu.html"),
        ("operator", "explore.html#op=add"),
    ],
)
def test_pages_match_their_reviewed_screenshots(
    browser: Any, site_address: str, name: str, fragment: str, tmp_path: Path
) -> None:
    browser.get("about:blank")
    browser.get(f"{site_address}/{fragment}")
    if "#" in fragment:
        WebDriverWait(browser, 20).until(view_text)
    screenshots.assert_page_matches_screenshot(browser, f"site-{name}", tmp_path)


def test_the_page_of_a_backend_shows_the_trend_of_its_level(browser: Any, site_address: str) -> None:
    browser.get(f"{site_address}/backends/hpu-reference.html")
    labels = [
        element.get_attribute("aria-label") for element in browser.find_elements(By.CSS_SELECTOR, "svg.trend")
    ]
    assert labels[1] == "Level held, from 2026-01-05 to 2026-01-09: between no level and bringup"
    browser.get(f"{site_address}/interop.html")
    labels = [
        element.get_attribute("aria-label") for element in browser.find_elements(By.CSS_SELECTOR, "svg.trend")
    ]
    assert any(text.startswith("Share of mutants that level full killed") for text in labels)


def test_the_page_of_a_result_shows_its_first_failing_run_and_its_message(
    open_explore_view: Open, site_folder: Path
) -> None:
    page = open_explore_view(f"#result={quote(regressed_result_id(site_folder), safe='')}")
    rows = [row.text for row in page.find_elements(By.CSS_SELECTOR, "#view tbody tr")]
    (failing_row,) = [row for row in rows if row.startswith("Reference HPU")]
    assert "fail 2026-01-08" in failing_row and "3 × pass" in failing_row and "2 × fail" in failing_row
    assert "document.title" in failing_row, "the script in the message is shown as text"
    assert "fails on hpu-reference only" in view_text(page)
    assert chromium.accessibility_violations(page) == []
    chromium.save_screenshot_if_requested(page, "explore-result-light")


def test_the_page_of_an_operator_counts_passed_and_all_results(open_explore_view: Open) -> None:
    page = open_explore_view("#op=add")
    sums = page.find_element(By.CSS_SELECTOR, "#view tbody tr").text
    assert "1 of 1 pass" in sums and "0 of 1 pass" in sums
    page.find_element(By.CSS_SELECTOR, "#view tbody td a").click()
    WebDriverWait(page, 10).until(lambda driver: "#result=" in driver.current_url)


def test_a_query_finds_results_of_all_backends(open_explore_view: Open) -> None:
    page = open_explore_view("#q=" + quote("verdict:fail backend:torch-npu"))
    assert view_text(page).startswith("29 results of 29 names match")
    field = page.find_element(By.ID, "query")
    assert field.get_attribute("value") == "verdict:fail backend:torch-npu"
    field.clear()
    field.send_keys("verdict:fail backend:hpu-reference message:title", Keys.ENTER)
    WebDriverWait(page, 10).until(lambda driver: view_text(driver).startswith("1 results of 1 names match"))


@pytest.mark.parametrize(
    "query", ["op:add", "op:ADD verdict:pass", "op:add,mul", "op:add or op:mul", "-op:add"]
)
def test_a_query_loads_the_data_that_it_needs(open_explore_view: Open, query: str) -> None:
    page = open_explore_view("#q=" + quote(query))
    few = view_text(page)
    page.execute_script("needed = everything")
    page.execute_script("draw()")
    WebDriverWait(page, 20).until(lambda driver: driver.execute_script("return shards.size") == 64)
    assert view_text(page) == few and "0 results" not in few.splitlines()[0].split(" of ")[0].split()


def test_a_mistake_in_a_query_is_reported(open_explore_view: Open) -> None:
    page = open_explore_view("#q=verdict%3Afial")
    assert page.find_element(By.ID, "mistake").text.startswith("the query has the unknown verdict 'fial'")


@pytest.mark.parametrize(
    "fragment", ["#op=nothing", "#property=nothing", "#result=nothing", "#result=a/b@c", "#diff=a..b"]
)
def test_an_address_without_results_shows_a_message(open_explore_view: Open, fragment: str) -> None:
    page = open_explore_view(fragment)
    output = view_text(page) + page.find_element(By.ID, "mistake").text
    assert "No backend has a result" in output or "there is no run" in output


def test_two_runs_are_compared_by_address(open_explore_view: Open, site_folder: Path) -> None:
    page = open_explore_view("#diff=")
    for name, run in (("old", "2026-01-07"), ("new", "2026-01-08")):
        choice = Select(page.find_element(By.ID, name))
        (option,) = [
            option_element.text
            for option_element in choice.options
            if "Reference HPU" in option_element.text and run in option_element.text
        ]
        choice.select_by_visible_text(option)
    page.find_element(By.ID, "compare").click()
    WebDriverWait(page, 10).until(lambda driver: "1 results differ" in view_text(driver))
    assert f"{regressed_result_id(site_folder)} pass fail" in view_text(page)
    second_page = open_explore_view("#" + page.current_url.partition("#")[2])
    assert f"{regressed_result_id(site_folder)} pass fail" in view_text(second_page)


def test_pages_work_from_a_folder_without_a_server(browser: Any, site_folder: Path) -> None:
    browser.get(f"{(site_folder / 'explore.html').as_uri()}#op=add")
    WebDriverWait(browser, 10).until(lambda page: "1 of 1 pass" in view_text(page))


def test_no_view_is_wider_than_a_narrow_screen(open_explore_view: Open) -> None:
    for fragment in VIEWS.values():
        page = open_explore_view(fragment)
        page.set_window_size(500, 800)
        wide, screen = page.execute_script(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert wide <= screen, fragment
