"""The site shows passing, failing, old and missing results as such, and rejects invalid and malicious
results.
"""

from __future__ import annotations

import datetime
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from conformance import cli
from conformance.errors import UsageError
from conformance.site import badges, cell_state, matrix_cells, provenance, registry
from tests.support.sample_passing_leg import with_recounted_totals, with_rows
from tests.support.sample_site_runs import (
    OURS,
    TODAY,
    failing_leg,
    matrix_table,
    provenance_of_night,
    refused_leg,
    site_leg,
)

MODES = ("eager", "compile")
DAY = datetime.date.fromisoformat(TODAY)


def build_site(results, tmp_path, *more):
    out = tmp_path / "site"
    code = cli.main(["site", str(results), "-o", str(out), "--today", TODAY, *more])
    return code, out, json.loads((out / "data.json").read_text())


def cells_of(data, backend):
    (backend_cells,) = [entry["cells"] for entry in data["backends"] if entry["id"] == backend]
    return backend_cells


def test_a_run_becomes_a_matrix_cell(write_backend_run, tmp_path):
    code, out, data = build_site(write_backend_run("cpu", "r1", site_leg()), tmp_path)
    assert code == 0
    (cell,) = cells_of(data, "cpu")
    (run,) = cell["runs"]
    assert (cell["torch"], cell["kind"], cell["abi"], cell["mode"]) == ("2.13.0+cpu", "public", "1", "eager")
    assert (cell["state"], run["level_held"], run["status"]) == ("pass", "bringup", "passed")
    assert run["passed"] == run["planned"] == run["claimed"] > 50
    assert "100 % passed" in (out / "index.html").read_text()
    assert "2.13.0+cpu" in (out / "backends" / "cpu.html").read_text()


def test_backends_without_results_are_unknown_and_do_not_pass(write_backend_run, tmp_path):
    _, out, data = build_site(write_backend_run("cpu", "r1", site_leg()), tmp_path)
    backends = registry.load()
    assert {entry["id"] for entry in data["backends"]} == set(backends) and len(backends) >= 8
    assert cells_of(data, "torch-npu") == []
    page = (out / "backends" / "torch-npu.html").read_text()
    assert "no result yet" in page and "state pass" not in page
    assert "no result yet" in (out / "badges" / "torch-npu.svg").read_text()


@pytest.mark.parametrize(
    ("started", "state", "age"),
    [
        ("2026-01-10", "pass", "fresh"),
        ("2026-01-07", "pass", "fresh"),
        ("2026-01-06", "pass", "ageing"),
        ("2025-12-27", "pass", "ageing"),
        ("2025-12-26", "stale", "stale"),
        ("2025-10-12", "stale", "stale"),
        ("2025-10-11", "retired", "retired"),
    ],
)
def test_the_state_of_a_cell_depends_on_the_age_of_its_results(
    write_backend_run, tmp_path, started, state, age
):
    _, out, data = build_site(
        write_backend_run("cpu", "r1", site_leg(started=f"{started}T10:00:00+00:00")), tmp_path
    )
    (cell,) = cells_of(data, "cpu")
    assert (cell["state"], cell["age"]) == (state, age)
    if state != "pass":
        assert 'class="state pass">pass</span> <a' not in (out / "index.html").read_text()
        assert "last seen" in (out / "badges" / "cpu.svg").read_text() + (out / "index.html").read_text()


def test_failing_refused_and_incomplete_cells(write_backend_run, tmp_path):
    results = write_backend_run(
        "cpu",
        "r1",
        failing_leg(site_leg(), 0),
        refused_leg(),
        {**site_leg(mode="graph"), "complete": False, "exit": 3},
    )
    _, out, data = build_site(results, tmp_path)
    assert {cell["mode"]: cell["state"] for cell in cells_of(data, "cpu")} == {
        **{"eager": "fail", "lazy": "refused", "graph": "incomplete"}
    }
    page = (out / "backends" / "cpu.html").read_text()
    assert "Known gaps" in page and "it needs a fork-like torch" in page
    assert "Linux x86_64" in page and "myhost" not in page
    # The badge of the backend shows the state of its worst current cell.
    assert ">fail, 3 modes<" in (out / "badges" / "cpu.svg").read_text()


def test_the_newest_run_is_shown_with_its_regressions(write_backend_run, tmp_path):
    write_backend_run("cpu", "z-old", site_leg(started="2026-01-05T00:00:00+00:00"))
    results = write_backend_run("cpu", "a-new", failing_leg(site_leg(), 3))
    _, out, data = build_site(results, tmp_path)
    (cell,) = cells_of(data, "cpu")
    assert [run["run"] for run in cell["runs"]] == ["a-new", "z-old"]
    assert len(cell["runs"][0]["regressed"]) == 1 and cell["runs"][0]["compared_with"] == "z-old"
    assert cell["runs"][1]["compared_with"] is None
    assert cell["runs"][0]["regressed"][0] in (out / "backends" / "cpu.html").read_text()


def test_each_build_is_a_column(write_backend_run, tmp_path):
    write_backend_run("cpu", "r1", site_leg())
    results = write_backend_run("cpu", "r2", site_leg(kind="fork-like"))
    _, out, data = build_site(results, tmp_path)
    assert {cell["kind"] for cell in cells_of(data, "cpu")} == {"public", "fork-like"}
    assert (out / "index.html").read_text().count('<th scope="col" data-build=') == 2


def build_and_read_cell_states(results, tmp_path):
    _, out, data = build_site(results, tmp_path, "--our-repository", "o/suite")
    return out, {cell["mode"]: (cell["state"], cell["missing_since"]) for cell in cells_of(data, "cpu")}


def legs_of_night(day, *modes, **changes):
    return [
        site_leg(started=f"2026-01-{day:02}T0{hour}:00:00+00:00", mode=mode, **changes)
        for hour, mode in enumerate(modes)
    ]


def test_a_cell_without_a_new_result_is_missing(write_backend_run, tmp_path):
    """A cell without a result in the newest run is missing. The first run has two modes, the next two runs
    lack the second mode, and the last run has both modes again.
    """
    first = legs_of_night(5, *MODES)
    write_backend_run("cpu", "r1", *first, provenance=provenance_of_night(5), table=matrix_table(*first))
    for day in (6, 7):
        legs = legs_of_night(day, "eager")
        results = write_backend_run(
            "cpu",
            f"r{day}",
            *legs,
            provenance=provenance_of_night(day),
            table=matrix_table(*legs, missing=["compile"]),
        )
    out, cell_states = build_and_read_cell_states(results, tmp_path)
    assert cell_states == {"eager": ("pass", None), "compile": ("missing", "2026-01-06T23:00:00+00:00")}
    page = (out / "index.html").read_text()
    assert "no result since 2026-01-06" in page and page.count('"state pass">pass</span> <a') == 1
    assert ">missing: no result" in (out / "badges" / "cpu-compile.svg").read_text()
    assert "cpu: missing" in (out / "badges" / "cpu.svg").read_text()
    last = legs_of_night(8, *MODES)
    write_backend_run("cpu", "r8", *last, provenance=provenance_of_night(8), table=matrix_table(*last))
    assert build_and_read_cell_states(results, tmp_path)[1] == {
        "eager": ("pass", None),
        "compile": ("pass", None),
    }


def test_nights_are_ordered_by_receipt_and_not_by_the_backends_clock(write_backend_run, tmp_path):
    first = legs_of_night(5, *MODES)
    write_backend_run("cpu", "r1", *first, provenance=provenance_of_night(5), table=matrix_table(*first))
    older_start = site_leg(started="2020-01-01T00:00:00+00:00")
    results = write_backend_run(
        "cpu",
        "r2",
        older_start,
        provenance=provenance_of_night(6),
        table=matrix_table(older_start, missing=["compile"]),
    )
    assert build_and_read_cell_states(results, tmp_path)[1]["compile"][0] == "missing"


def test_older_versions_of_a_nightly_build_are_not_missing(write_backend_run, tmp_path):
    """The build ``nightly`` is a different version of torch each night. Cells of older versions do not become
    missing cells.
    """
    for day, torch in ((5, "2.14.0.dev5"), (7, "2.14.0.dev7")):
        (leg,) = legs_of_night(day, "eager", torch=torch)
        write_backend_run(
            "cpu",
            f"r{day}",
            leg,
            provenance=provenance_of_night(day),
            table=matrix_table(leg, spec="nightly"),
        )
    (compile_leg,) = legs_of_night(6, "compile")
    results = write_backend_run(
        "cpu",
        "r6",
        compile_leg,
        provenance=provenance_of_night(6),
        table=matrix_table(compile_leg, missing=["eager"], spec="nightly"),
    )
    _, out, data = build_site(results, tmp_path, "--our-repository", "o/suite")
    assert {cell["state"] for cell in cells_of(data, "cpu")} == {"pass"}
    assert "missing" not in (out / "badges" / "cpu.svg").read_text()


def test_a_failed_start_does_not_hide_a_missing_cell(write_backend_run, tmp_path):
    long = "2.13.0a0+git" + "f" * 40 + ".vendor.local.build7"
    (first,) = legs_of_night(5, "eager", torch=long)
    write_backend_run("cpu", "r1", first, provenance=provenance_of_night(5), table=matrix_table(first))
    refusal = refused_leg(mode="eager", torch=long)
    refusal["facts"] = {**refusal["facts"], "torch": {"kind": None, "abi": None}}
    write_backend_run("cpu", "r2", refusal, provenance=provenance_of_night(6), table=matrix_table(refusal))
    (compile_leg,) = legs_of_night(7, "compile", torch=long)
    results = write_backend_run(
        "cpu",
        "r3",
        compile_leg,
        provenance=provenance_of_night(7),
        table=matrix_table(compile_leg, missing=["eager"]),
    )
    _, _, data = build_site(results, tmp_path, "--our-repository", "o/suite")
    cell_states = {(cell["kind"], cell["mode"]): cell["state"] for cell in cells_of(data, "cpu")}
    assert cell_states["public", "eager"] == "missing"


def test_two_builds_of_the_same_torch(write_backend_run, tmp_path):
    """Two builds of a matrix can be the same torch. The first run has both builds, the second only 2.13.0,
    and the third neither. The last run determines the missing cells.
    """
    both = ["2.13.0", "newest"]
    for day, (there, missing_specs) in {5: (both, []), 6: (["2.13.0"], ["newest"]), 7: ([], both)}.items():
        legs = legs_of_night(day, "eager") if there else legs_of_night(day, "compile")
        tables = [matrix_table(*legs, spec=spec) for spec in there or ["2.6.0"]]
        tables += [matrix_table(missing=["eager"], spec=spec) for spec in missing_specs]
        cells = [cell for cell_table in tables for cell in cell_table["cells"]]
        results = write_backend_run(
            "cpu", f"r{day}", *legs, provenance=provenance_of_night(day), table={"cells": cells}
        )
        expected = ("pass", None) if there else ("missing", "2026-01-07T23:00:00+00:00")
        assert build_and_read_cell_states(results, tmp_path)[1]["eager"] == expected


def test_a_vendor_result_does_not_hide_a_missing_cell(write_backend_run, tmp_path):
    """A cell is missing if the newest run of the suite's own workflow has no result for it, even if a vendor
    reported a result.
    """
    (first,) = legs_of_night(1, "eager")
    write_backend_run("cpu", "r1", first, provenance=provenance_of_night(1), table=matrix_table(first))
    for day in (2, 8):
        (compile_leg,) = legs_of_night(day, "compile")
        write_backend_run(
            "cpu",
            f"r{day}",
            compile_leg,
            provenance=provenance_of_night(day),
            table=matrix_table(compile_leg, missing=["eager"]),
        )
    results = write_backend_run("cpu", "own", *legs_of_night(7, "eager"))
    assert build_and_read_cell_states(results, tmp_path)[1]["eager"] == (
        "missing",
        "2026-01-02T23:00:00+00:00",
    )


@pytest.mark.parametrize("change", ["another torch", "unreadable", "no facts", "left out", "a refused file"])
def test_an_invalid_result_does_not_hide_a_missing_cell(change, write_backend_run, tmp_path):
    first = legs_of_night(5, *MODES)
    write_backend_run("cpu", "r5", *first, provenance=provenance_of_night(5), table=matrix_table(*first))
    legs = legs_of_night(6, *MODES)
    own_table = matrix_table(*legs)
    row = own_table["cells"][1]
    if change == "another torch":
        row |= {"status": "missing", "torch": "2.12.0+cpu"}
    elif change == "unreadable":
        row |= {"status": "incomplete", "torch": None, "torch_kind": None, "abi": None, "counts": {}}
    elif change == "no facts":
        row |= {"status": "not-started", "torch_kind": None, "abi": None, "counts": {}}
    legs = legs if change == "a refused file" else legs[:1]
    if change == "a refused file":
        legs[0]["started"] = "yesterday"
    results = write_backend_run("cpu", "r6", *legs, provenance=provenance_of_night(6), table=own_table)
    assert build_and_read_cell_states(results, tmp_path)[1]["compile"] == (
        "missing",
        "2026-01-06T23:00:00+00:00",
    )


def test_a_backends_clock_does_not_hide_a_failure(write_backend_run, tmp_path):
    write_backend_run("cpu", "r5", *legs_of_night(5, "eager"), provenance=provenance_of_night(5))
    older_start = failing_leg(site_leg(started="2020-01-01T00:00:00+00:00"), 0)
    results = write_backend_run("cpu", "r6", older_start, provenance=provenance_of_night(6))
    assert build_and_read_cell_states(results, tmp_path)[1] == {"eager": ("fail", None)}


def test_cells_that_the_own_workflow_never_ran_are_not_missing(write_backend_run, tmp_path):
    (first,) = legs_of_night(5, "eager")
    write_backend_run("cpu", "r1", first, provenance=provenance_of_night(5), table=matrix_table(first))
    (eager_leg,) = legs_of_night(6, "eager")
    eager_leg["facts"]["torch"] = {**eager_leg["facts"]["torch"], "abi": "0"}
    write_backend_run("cpu", "r2", eager_leg)
    (last,) = legs_of_night(7, "compile")
    results = write_backend_run(
        "cpu", "r3", last, provenance=provenance_of_night(7), table=matrix_table(last, missing=["eager"])
    )
    _, _, data = build_site(results, tmp_path, "--our-repository", "o/suite")
    cell_states = {(cell["abi"], cell["mode"]): cell["state"] for cell in cells_of(data, "cpu")}
    assert cell_states == {("1", "eager"): "missing", ("0", "eager"): "pass", ("1", "compile"): "pass"}


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"cells": 3}', '{"cells": [1]}', '{"cells": [{"cell": {}}]}', "[" * 100_000, " " * (9 << 20)],
)
def test_an_invalid_table_is_reported_and_hides_nothing(content, write_backend_run, tmp_path):
    results = write_backend_run("cpu", "r1", site_leg(), provenance=OURS)
    (results / "cpu" / "r1" / "matrix.json").write_text(content)
    code, _, data = build_site(results, tmp_path, "--our-repository", "o/suite")
    assert code == 1 and [refusal["place"] for refusal in data["refused"]] == ["cpu/r1"]
    assert "its matrix.json is not a table of cells" in data["refused"][0]["why"]
    assert cells_of(data, "cpu")[0]["state"] == "pass"


def test_only_matrix_tables_of_the_own_workflow_are_used(write_backend_run, tmp_path):
    first = site_leg(started="2026-01-07T00:00:00+00:00")
    write_backend_run("cpu", "r1", first, provenance=OURS, table=matrix_table(first))
    compile_leg = site_leg(started="2026-01-08T00:00:00+00:00", mode="compile")
    results = write_backend_run("cpu", "r2", compile_leg, table=matrix_table(compile_leg, missing=["eager"]))
    assert build_and_read_cell_states(results, tmp_path)[1] == {
        "eager": ("pass", None),
        "compile": ("pass", None),
    }


def test_without_a_build_every_backend_is_unknown(write_backend_run, tmp_path):
    (tmp_path / "results").mkdir()
    code, out, _ = build_site(tmp_path / "results", tmp_path)
    assert code == 0 and (out / "index.html").read_text().count('data-state="unknown"') == len(
        registry.load()
    )


VENDOR = {"channel": "vendor-workflow", "received": "2026-01-09T04:00:00+00:00", "repository": "v/backend"}


def test_the_provenance_of_a_run_is_shown(write_backend_run, tmp_path):
    write_backend_run("cpu", "r1", site_leg())
    ours = {**VENDOR, "channel": "our-workflow", "repository": "o/suite", "run_id": "12", "commit": "a" * 40}
    results = write_backend_run(
        "hpu-reference", "r1", site_leg(device="hpu", simulated=True), provenance=ours
    )
    code, _, data = build_site(results, tmp_path)
    assert (
        code == 1 and cells_of(data, "hpu-reference") == []
    )  # without --our-repository the site shows no run as the suite's own
    _, out, data = build_site(results, tmp_path, "--our-repository", "o/suite")
    assert cells_of(data, "cpu")[0]["runs"][0]["provenance"] == "self-reported"
    assert (
        cells_of(data, "hpu-reference")[0]["runs"][0]["link"] == "https://github.com/o/suite/actions/runs/12"
    )
    assert "ran in this project&#39;s workflow" in (out / "index.html").read_text()


def write_registry(tmp_path: Path, **more: str) -> Path:
    folder = tmp_path / "registry"
    folder.mkdir()
    lines = {"name": "Mine", "link": "https://vendor.example/", "device": "cpu", **more}
    text = "".join(
        f"{key} = {value!r}\n" if key != "expires" else f"{key} = {value}\n" for key, value in lines.items()
    )
    (folder / "mine.toml").write_text(text.replace("'", '"'))
    return folder


@pytest.mark.parametrize(
    ("given", "is_shown"),
    [
        ({"workflow": ".github/workflows/w.yml"}, True),
        ({"workflow": ".github/workflows/other.yml"}, False),
        ({"workflow": ".github/workflows/w.yml", "repository": "other/backend"}, False),
    ],
)
def test_only_the_registered_workflow_is_a_vendor(write_backend_run, tmp_path, given, is_shown):
    folder = write_registry(
        tmp_path, repository="v/backend", workflow=".github/workflows/w.yml", expires="2026-06-01"
    )
    results = write_backend_run("mine", "r1", site_leg(), provenance={**VENDOR, **given})
    code, _, data = build_site(results, tmp_path, "--registry", str(folder))
    assert (code, bool(cells_of(data, "mine"))) == (0 if is_shown else 1, is_shown)


def test_an_expired_registration_is_ignored(write_backend_run, tmp_path):
    folder = write_registry(
        tmp_path, repository="v/backend", workflow=".github/workflows/w.yml", expires="2026-01-01"
    )
    results = write_backend_run(
        "mine", "r1", site_leg(), provenance={**VENDOR, "workflow": ".github/workflows/w.yml"}
    )
    code, _, data = build_site(results, tmp_path, "--registry", str(folder))
    assert code == 1 and "ended on 2026-01-01" in data["refused"][0]["why"]


HOSTILE = "</td><script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>\"'`{{}}"


class TagCollector(HTMLParser):
    """HTML parser that collects the tags of a page with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_a_malicious_results_file_harms_nothing(write_backend_run, tmp_path):
    bad = failing_leg(site_leg(), 0, 1, message=HOSTILE)
    bad["problems"] = [HOSTILE]
    bad["facts"]["platform"] = bad["facts"]["backend"]["version"] = HOSTILE
    bad["facts"]["torch"].update(kind=HOSTILE, abi=HOSTILE, revision=HOSTILE)
    bad["torch"] = HOSTILE
    bad["target"] = {**bad["target"], "name": "hpu-reference", "device": HOSTILE}
    _, out, data = build_site(write_backend_run("cpu", "r1", bad), tmp_path)
    assert cells_of(data, "hpu-reference") == []  # a run of one backend must not become a result of another
    for page in [*out.rglob("*.html"), *out.rglob("*.svg")]:
        parser = TagCollector()
        parser.feed(page.read_text())
        for tag, attributes in parser.found:
            assert not any(name.startswith("on") for name in attributes), (page, tag)
            assert tag != "img" and (
                tag != "script" or attributes == {"src": attributes["src"], "defer": None}
            )
            for name in ("src", "href") if tag in ("script", "link") else ():
                assert not re.match(r"[a-z]+:|//", attributes.get(name) or ""), (page, attributes)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda leg: leg.update(totals={"pass": 99999}), "totals differs from the counts of the results"),
        (lambda leg: leg.update(started="2027-01-01T00:00:00+00:00"), "is in the future"),
        (lambda leg: leg.update(started="yesterday"), "is not a time"),
        (lambda leg: leg.update(selection="add"), "is a selection"),
        (lambda leg: leg.update(shard="1/2"), "or a shard"),
        (lambda leg: leg.update(extra="x"), "do not follow the schema"),
    ],
)
def test_invalid_and_restricted_runs_are_refused(write_backend_run, tmp_path, change, why):
    results = write_backend_run("cpu", "r1", site_leg())
    file = results / "cpu" / "r1" / "results.json"
    document = json.loads(file.read_text())
    change(document["legs"][0])
    file.write_text(json.dumps(document))
    code, out, data = build_site(results, tmp_path)
    assert code == 1 and why in data["refused"][0]["why"]
    assert cells_of(data, "cpu") == []
    assert "Not shown" in (out / "index.html").read_text()
    assert str(tmp_path) not in (out / "data.json").read_text()


def test_symbolic_links_invalid_files_and_unknown_backends_are_refused(write_backend_run, tmp_path):
    results = write_backend_run("cpu", "r1", site_leg())
    (results / "cpu" / "r2").symlink_to(results / "cpu" / "r1")
    (results / "cpu" / "r3").mkdir()
    (results / "cpu" / "r3" / "results.json").symlink_to("/etc/passwd")
    (results / "cpu" / "r4").mkdir()
    (results / "cpu" / "r4" / "results.json").write_text("[" * 100_000)
    (results / "cpu" / "r5").write_text("x")
    (results / "nobody").mkdir()
    code, _, data = build_site(results, tmp_path)
    assert code == 1 and len(data["refused"]) == 5
    assert len(cells_of(data, "cpu")[0]["runs"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"channel": "our-workflow"}',
        '{"channel": "best", "received": "2026-01-09T04:00:00+00:00"}',
        '{"channel": "our-workflow", "received": "2026-01-09T04:00:00"}',
        '{"channel": "our-workflow", "received": "2026-01-09T04:00:00+00:00", "repository": "x/../../y"}',
        '{"channel": "our-workflow", "received": "2026-01-09T04:00:00+00:00", "run_id": "1/javascript:x"}',
        '{"channel": "our-workflow", "received": "2026-01-09T04:00:00+00:00", "more": 1}',
    ],
)
def test_invalid_provenance_is_rejected(tmp_path, text):
    file = tmp_path / "provenance.json"
    file.write_text(text)
    with pytest.raises(UsageError):
        provenance.read_provenance(file, registry.load()["cpu"], DAY)


@pytest.mark.parametrize(
    ("text", "words_of_it"),
    [
        ("name = 'x'\n", "has no link"),
        ("name = 'x'\nlink = 'javascript:alert(1)'\n", "not an https address"),
        ("name = 'x'\nlink = 'https://x'\nlevel = 'full'\n", "unknown key 'level'"),
        ("name = \n", "cannot be read"),
    ],
)
def test_invalid_registry_files_are_rejected(tmp_path, text, words_of_it):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(UsageError, match=words_of_it):
        registry.load(tmp_path)


@pytest.mark.parametrize(
    "lie",
    [
        lambda leg: [row.update(verdict="fail") for row in leg["results"]],
        lambda leg: leg.update(results=[], cases={}, case_totals={}, totals={}, planned=0),
        lambda leg: leg.update(missing={"count": 5, "first": list("abcde")}, planned=leg["planned"] + 5),
        lambda leg: leg["oracle"].update(differences=["x"]),
        lambda leg: leg.update(samples="1"),
    ],
)
def test_a_wrong_summary_of_a_run_does_not_make_it_pass(write_backend_run, tmp_path, lie):
    false_leg = site_leg()
    lie(false_leg)
    if false_leg["results"]:
        false_leg = {**with_recounted_totals(false_leg), "planned": false_leg["planned"]}
    assert (false_leg["exit"], false_leg["complete"]) == (0, True)
    _, out, data = build_site(write_backend_run("cpu", "r1", false_leg), tmp_path)
    assert [cell["state"] for cell in cells_of(data, "cpu")] in ([], ["fail"], ["incomplete"])
    assert 'class="state pass">pass</span> <a' not in (out / "index.html").read_text()


ODD = {
    "facts.torch": lambda leg: leg["facts"].update(torch=[]),
    "facts.backend": lambda leg: leg["facts"].update(backend=None),
    "facts.extra": lambda leg: leg["facts"].update(extra=5),
    "half a character": lambda leg: leg.update(problems=["\ud800"]),
    "device": lambda leg: leg["target"].update(device="cuda"),
    "simulated": lambda leg: leg["target"].update(simulated=True),
}


def leg_of_own_build(index):
    new_leg = site_leg()
    new_leg["facts"]["torch"] = {**new_leg["facts"]["torch"], "kind": f"public{index}"}
    return {
        **new_leg,
        "mode": ("eager", "compile", "graph", "lazy")[index % 4],
        "torch": f"2.13.{index // 4}",
    }


def leg_with_unsupported_patterns(*patterns):
    declaring_leg = site_leg()
    declared = {**declaring_leg["target"]["declared"], "unsupported": dict.fromkeys(patterns, "no")}
    return {**declaring_leg, "target": {**declaring_leg["target"], "declared": declared}}


@pytest.mark.parametrize(
    ("legs", "why"),
    [
        (lambda: [leg_of_own_build(index) for index in range(9)], "it has 9 builds of torch"),
        (
            lambda: [leg_with_unsupported_patterns(*map(str, range(401)))],
            "it declares 401 patterns unsupported",
        ),
        (lambda: [leg_with_unsupported_patterns("a" * 201)], "it declares 'aaaa"),
        (lambda: [leg_with_unsupported_patterns("?*" * 9)], "it declares '?*"),
    ],
)
def test_files_with_too_many_builds_or_patterns_are_refused(legs, why, write_backend_run, tmp_path):
    new_legs = legs()
    results = write_backend_run("cpu", "r1", *new_legs)
    _, _, data = build_site(results, tmp_path)
    assert cells_of(data, "cpu") == [] and data["refused"][0]["why"].startswith(why)
    # The size of the suite's own matrix is not limited.
    write_backend_run("cpu", "r2", *new_legs, provenance=OURS)
    _, _, data = build_site(results, tmp_path, "--our-repository", "o/suite")
    assert len(cells_of(data, "cpu")) == len(new_legs)


@pytest.mark.parametrize("name", ODD)
def test_an_invalid_run_does_not_hide_other_runs(write_backend_run, tmp_path, name):
    odd = site_leg(mode="graph")
    ODD[name](odd)
    results = write_backend_run("cpu", "r1", site_leg())
    write_backend_run("cpu", "odd", site_leg(mode="graph"))
    file = results / "cpu" / "odd" / "results.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "legs": [odd]}))  # not in the suite's format
    code, _, data = build_site(results, tmp_path)
    assert code == 1 and [refusal["place"] for refusal in data["refused"]] == ["cpu/odd"], name
    assert [cell["mode"] for cell in cells_of(data, "cpu")] == ["eager"]


def test_a_run_with_one_invalid_leg_is_refused_completely(write_backend_run, tmp_path):
    results = write_backend_run("cpu", "r1", site_leg(), site_leg(mode="graph", selection="add"))
    _, _, data = build_site(results, tmp_path)
    assert len(data["refused"]) == 1 and cells_of(data, "cpu") == []


def test_a_run_is_compared_with_the_last_run_that_has_results(write_backend_run, tmp_path):
    write_backend_run("cpu", "1", site_leg(started="2026-01-05T00:00:00+00:00"))
    write_backend_run("cpu", "2", {**refused_leg("eager"), "started": "2026-01-06T00:00:00+00:00"})
    results = write_backend_run("cpu", "3", failing_leg(site_leg(), 0))
    _, _, data = build_site(results, tmp_path)
    runs = cells_of(data, "cpu")[0]["runs"]
    assert [(run["compared_with"], len(run["regressed"])) for run in runs] == [("1", 1), (None, 0), (None, 0)]


def test_a_self_reported_run_does_not_replace_an_attested_run(write_backend_run, tmp_path):
    folder = write_registry(tmp_path, repository="v/backend", workflow=".github/workflows/w.yml")
    fail = failing_leg(site_leg(started="2026-01-08T00:00:00+00:00"), 0)
    write_backend_run("mine", "attested", fail, provenance={**VENDOR, "workflow": ".github/workflows/w.yml"})
    results = write_backend_run("mine", "said", site_leg())
    _, _, data = build_site(results, tmp_path, "--registry", str(folder))
    assert [cell["state"] for cell in cells_of(data, "mine")] == ["fail"]


def test_the_date_of_a_run_is_not_later_than_its_receipt(write_backend_run, tmp_path):
    folder = write_registry(tmp_path, repository="v/backend", workflow=".github/workflows/w.yml")
    old = {**VENDOR, "workflow": ".github/workflows/w.yml", "received": "2025-11-01T00:00:00+00:00"}
    _, _, data = build_site(
        write_backend_run("mine", "r1", site_leg(), provenance=old), tmp_path, "--registry", str(folder)
    )
    assert [cell["state"] for cell in cells_of(data, "mine")] == ["stale"]


def test_the_site_never_replaces_a_results_folder(write_backend_run, tmp_path):
    results = write_backend_run("cpu", "r1", site_leg())
    (results / "data.json").write_text("{}")
    for output in (results, results / "cpu", tmp_path):
        assert cli.main(["site", str(results), "-o", str(output)]) == 2
    assert (results / "cpu" / "r1" / "results.json").exists()
    (tmp_path / "file").write_text("x")
    assert cli.main(["site", str(results), "-o", str(tmp_path / "file")]) == 2


def test_a_folder_that_is_not_a_site_is_not_replaced(write_backend_run, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mine.txt").write_text("keep")
    assert (
        cli.main(["site", str(write_backend_run("cpu", "r1", site_leg())), "-o", str(tmp_path / "site")]) == 2
    )
    assert (tmp_path / "site" / "mine.txt").exists()


def test_a_share_is_not_rounded_up_to_100_percent():
    assert cell_state.percent(0.9999) == "99.9 %"
    assert cell_state.percent(1.0) == "100 %"


def test_badges_are_valid_and_escaped():
    text = badges.badge('a"<b>', "fail", "x & y")
    assert "<b>" not in text and "&lt;b&gt;" in text and "x &amp; y" in text
    assert set(badges._COLOURS) == set(cell_state.STATES)


def test_the_age_of_a_result():
    at = datetime.datetime(2026, 1, 10, tzinfo=datetime.timezone.utc)
    assert [
        matrix_cells.run_age(at, at.date() + datetime.timedelta(days=n)) for n in (0, 3, 4, 14, 15, 90, 91)
    ] == [*("fresh", "fresh", "ageing", "ageing", "stale", "stale", "retired")]


def test_the_health_of_the_suite_is_computed_from_its_own_devices(write_backend_run, tmp_path):
    flaky = with_rows(site_leg(), {site_leg()["results"][0]["id"]: {"verdict": "flaky"}})
    write_backend_run("cpu", "r1", {**flaky, "exit": 1})
    results = write_backend_run("torch-npu", "r1", failing_leg(site_leg(device="npu"), 1))
    build_site(results, tmp_path)
    page = (tmp_path / "site" / "interop.html").read_text().partition("Health of the suite")[2]
    assert "cpu, eager" in page and "1 flaky" in page and "npu" not in page
    assert "Mutation score of level full" in page
