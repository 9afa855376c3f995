"""Who is entitled to a level, and who is not: counted from rows, told in words."""

from __future__ import annotations

import json
import platform
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import certifiable
import pytest
from certifiable import Leg
from expecttest import assert_expected_inline

from conformance import cli
from conformance.certificate import entitlement, issue
from conformance.certificate.entitlement import Entitlement
from conformance.plan import levels
from conformance.plan.levels import manifest
from conformance.results import privacy

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module", autouse=True)
def settled() -> Iterator[None]:
    with certifiable.settled():
        yield


def judged(leg: Leg, level: str | None = None) -> Entitlement:
    return entitlement.judge(leg, manifest.load(), level or leg["level"])


def declaring(leg: Leg, **changes: Any) -> Leg:
    leg["target"]["declared"] |= changes
    return leg


def test_all_passes_hold_the_level_and_every_narrower_one() -> None:
    leg = certifiable.leg("core")
    found = judged(leg)
    assert found.entitled and found.counts()["passed"] == found.counts()["due"] == len(leg["results"])
    assert judged(leg, "bringup").entitled
    assert not judged(leg, "training").entitled
    assert entitlement.held(leg, manifest.load()) == "core"


@pytest.mark.parametrize(
    "verdict", ["fail", "xfail", "flaky", "xpass", "unsupported", "vacuous", "crash", "error"]
)
def test_nothing_but_pass_counts(verdict: str) -> None:
    kinds = {} if verdict in ("unsupported", "xpass") else {"failures": [{"kind": "value", "message": "off"}]}
    leg = certifiable.with_rows(certifiable.leg(), {"value/add@float32": {"verdict": verdict, **kinds}})
    found = judged(leg)
    assert not found.entitled
    assert list(found.missing.values()) == [("value/add@float32",)]


def test_a_result_without_a_row_is_missing() -> None:
    leg = certifiable.leg()
    leg["results"] = [row for row in leg["results"] if row["id"] != "value/add@float32"]
    found = judged(certifiable.summed(leg))
    assert dict(found.missing) == {"no result": ("value/add@float32",)} and not found.entitled


def test_two_rows_of_one_result_yield_no_level() -> None:
    leg = certifiable.leg()
    leg["results"].append(dict(leg["results"][0]))
    found = judged(certifiable.summed(leg))
    assert not found.entitled and found.unfit == (f"{leg['results'][0]['id']} has two rows",)


UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"selection": "add"}, "narrowed with -k 'add'"),
    ({"left_out": 3}, "left out 3 results"),
    ({"shard": "1/4"}, "shard 1/4; merge all shards"),
    ({"shard": "1,2/4"}, "shard 1,2/4"),
    ({"samples": "4"}, "--samples 4"),
    ({"complete": False, "exit": 3}, "not complete"),
    ({"exit": 3}, "not complete"),
    ({"exit": 2}, "not complete"),
    ({"missing": {"count": 2, "first": []}}, "2 results are missing"),
    ({"level": "smoke"}, "smoke is a quick choice"),
    ({"oracle": {"checked": 3, "differences": ["add@float32: other"]}}, "oracle gave other values"),
]


@pytest.mark.parametrize(("change", "words"), UNFIT, ids=lambda value: str(value)[:40])
def test_a_run_that_is_not_whole_yields_no_level(change: dict[str, Any], words: str) -> None:
    leg = certifiable.summed(certifiable.leg() | change)
    found = judged(leg, "bringup")
    assert not found.entitled
    assert any(words in reason for reason in found.unfit), found.unfit
    assert entitlement.held(leg, manifest.load()) is None


def test_extra_modules_and_sums_that_do_not_follow_yield_no_level() -> None:
    leg = certifiable.leg()
    leg["facts"]["extra"] = ["mine"]
    assert "extra modules (mine)" in judged(leg).unfit[0]
    leg = certifiable.leg()
    leg["totals"] = {"pass": 1}
    assert judged(leg).unfit == ("the totals do not follow from the rows",)
    leg = certifiable.leg()
    leg["cases"]["value/add"] = "fail"
    assert judged(leg).unfit == ("the verdicts of cases do not follow from the rows",)
    leg = certifiable.leg()
    leg["planned"] += 1
    assert "were planned" in judged(leg).unfit[0]


def test_the_default_samples_or_all_will_do_and_no_number() -> None:
    assert judged(certifiable.leg(samples="all")).entitled
    for samples in ("8", "32", "100"):
        assert "--samples" in judged(certifiable.leg(samples=samples)).unfit[0]


@pytest.mark.parametrize("verdict", ["fail", "crash", "timeout", "xfail"])
def test_what_is_declared_unsupported_must_be_refused(verdict: str) -> None:
    leg = declaring(certifiable.leg("core"), unsupported={"value/ad*@float16": "slow"})
    found = judged(certifiable.with_rows(leg, {"value/add@float16": {"verdict": verdict}}))
    assert not found.entitled
    assert any("not refused cleanly" in reason for reason in found.missing)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"comparisons": 0}, "compared nothing"),
        ({"failure_count": 1}, "shows failures"),
        ({"failures": [{"kind": "value", "message": "off"}]}, "shows failures"),
        ({"seed": 1}, "another seed"),
    ],
)
def test_a_pass_that_its_row_contradicts_does_not_count(change: dict[str, Any], words: str) -> None:
    found = judged(certifiable.with_rows(certifiable.leg(), {"value/add@float32": change}))
    (reason,) = found.missing
    assert words in reason and not found.entitled


DECLARED: list[tuple[dict[str, Any], str, str]] = [
    ({"dtypes": ["float32", "int64", "bool"]}, "dtype float16", "value/add@float16"),
    ({"operators": {"add": ["float32"]}}, "operators.add", "value/add@float16"),
    ({"unsupported": {"value/ad*@float16": "slow"}}, "unsupported value/ad*@float16", "value/add@float16"),
    ({"capabilities": {"fake_tensors": False}}, "capability fake_tensors", "fake/add@float32"),
    ({"capabilities": {"random": False}}, "capability random", "value/bernoulli@float32"),
]


@pytest.mark.parametrize(("declared", "reason", "name"), DECLARED, ids=[entry[1] for entry in DECLARED])
def test_what_is_not_declared_is_not_claimed(declared: dict[str, Any], reason: str, name: str) -> None:
    leg = declaring(certifiable.leg("core"), **declared)
    leg = certifiable.with_rows(leg, {name: {"verdict": "unsupported"}})
    found = judged(leg)
    assert found.entitled and name in found.not_claimed[reason]
    assert found.claimed == found.due - sum(map(len, found.not_claimed.values())) == len(found.passed)
    # It is not counted as passed either where it passes.
    other = judged(declaring(certifiable.leg("core"), **declared))
    assert other.counts() == found.counts()
    # And claimed, it is missing.
    assert not judged(
        certifiable.with_rows(certifiable.leg("core"), {name: {"verdict": "unsupported"}})
    ).entitled


FLOOR: list[tuple[dict[str, Any], str]] = [
    ({"dtypes": ["float16"]}, "value/add@float32"),
    ({"operators": {"add": []}}, "value/add@float32"),
    ({"unsupported": {"*/*@*": "not yet"}}, "value/add@int64"),
    ({"capabilities": {"views": False}}, "views/view@float32"),
    ({"capabilities": {"out_variants": False}}, "out/add@float32"),
]


@pytest.mark.parametrize(("declared", "name"), FLOOR, ids=lambda value: str(value)[:40])
def test_no_declaration_removes_the_floor(declared: dict[str, Any], name: str) -> None:
    leg = declaring(certifiable.leg("core"), **declared)
    found = judged(certifiable.with_rows(leg, {name: {"verdict": "unsupported"}}))
    assert dict(found.missing) == {"unsupported, in the floor of core": (name,)} and not found.entitled


@pytest.mark.parametrize(("mode", "word"), [("compile", "compile"), ("graph", "graphs")])
def test_nobody_holds_a_mode_by_not_declaring_it(mode: str, word: str) -> None:
    leg = declaring(certifiable.leg(mode=mode), capabilities={word: False})
    assert judged(leg).entitled  # all of it works: the declaration is too modest
    leg["results"] = [{**row, "verdict": "unsupported"} for row in leg["results"]]
    assert not judged(certifiable.summed(leg)).entitled


def test_a_hook_that_the_file_does_not_name_is_not_claimed() -> None:
    leg = declaring(certifiable.leg("full"), hooks=[])
    leg["results"] = [row for row in leg["results"] if row["id"] != "no_host_wait/Stream@any"]
    found = judged(certifiable.summed(leg))
    assert found.entitled and found.not_claimed["hook delay"] == ("no_host_wait/Stream@any",)


@pytest.mark.parametrize("placement", ["fallback", "unknown", "refused", None])
def test_listed_operators_must_not_fall_back(placement: str | None) -> None:
    leg = certifiable.with_rows(certifiable.leg("core"), {"placement/mm@float32": {"placement": placement}})
    for row in leg["results"]:
        if row.get("placement", "") is None:
            del row["placement"]
    found = judged(leg)
    words = f"placed {placement or 'unknown'}, although a device must run it itself"
    assert dict(found.missing) == {words: ("placement/mm@float32",)} and not found.entitled
    assert judged(leg, "bringup").entitled
    assert levels.load("core").native == found.demand.native


def test_composites_of_kernels_on_the_device_will_do() -> None:
    leg = certifiable.with_rows(certifiable.leg("core"), {"placement/mm@float32": {"placement": "composite"}})
    assert judged(leg).entitled


@pytest.mark.parametrize("verdict", ["fail", "xfail"])
def test_what_torch_itself_breaks_is_waived_for_everyone(verdict: str) -> None:
    name = "out/nn.functional.gelu@float32"
    off = {"verdict": verdict, "failures": [{"kind": "value", "message": "off"}], "failure_count": 1}
    found = judged(certifiable.with_rows(certifiable.leg("core"), {name: off}))
    assert found.entitled and found.waived == (name,) and name not in found.passed
    # Of its own kind of failure, and no other.
    off["failures"] = [{"kind": "value", "message": "off"}, {"kind": "crash", "message": "and worse"}]
    assert not judged(certifiable.with_rows(certifiable.leg("core"), {name: off})).entitled
    # And only failures that were seen: flaky is not what torch breaks.
    off |= {"verdict": "flaky", "failures": [{"kind": "value", "message": "off"}]}
    assert not judged(certifiable.with_rows(certifiable.leg("core"), {name: off})).entitled


def test_the_answer_yes(tmp_path: Path, capsys: Capture) -> None:
    leg = certifiable.leg()
    leg["target"]["simulated"] = True
    out, bundle = certifiable.folder(tmp_path / "out", leg), tmp_path / "bringup.zip"
    assert cli.main(["certify", str(out), "-o", str(bundle)]) == 0
    said = capsys.readouterr().out
    assert "mine: bringup in eager on torch 2.13, self-reported" in said
    assert "simulated device: no hardware stands behind these results" in said
    assert cli.main(["certify", "--verify", str(bundle)]) == 0
    said = capsys.readouterr().out
    order = [
        said.index(word)
        for word in ("verified:", "evidence (recounted", "statements (self-reported", "repeat it:")
    ]
    assert order == sorted(order) and "simulated device" in said


def test_the_answer_no(tmp_path: Path, capsys: Capture) -> None:
    off = {"verdict": "fail", "failures": [{"kind": "value", "message": "off"}], "failure_count": 1}
    leg = declaring(certifiable.leg("core"), dtypes=["float32", "int64", "bool"])
    leg["results"] = [
        row for row in leg["results"] if row["id"] not in ("value/exp@float32", "value/mul@float16")
    ]
    leg = certifiable.with_rows(leg, {f"layout/{name}@float32": off for name in ("add", "mul", "mm", "sub")})
    out = certifiable.folder(tmp_path / "out", leg)
    assert cli.main(["certify", str(out), "-o", str(tmp_path / "core.zip")]) == 3
    assert not (tmp_path / "core.zip").exists()
    lines = [
        line
        for line in capsys.readouterr().out.splitlines()
        if "not claimed" not in line and "claimed results" not in line
    ]
    assert_expected_inline(
        re.sub(r"of \d+ results", "of N results", "\n".join(lines)),
        """\
mine, eager, torch 2.13.0+cpu: not entitled to core in eager on torch 2.13
  4 missing: fail (value)
    layout/add@float32
    layout/mm@float32
    layout/mul@float32
    and 1 more
  1 missing: no result
    value/exp@float32
held: no level
nearest: bringup, which lacks 1 of N results, first value/exp@float32
next: conformance repro layout/add@float32 --target mine.toml --mode eager""",
    )


def test_it_says_which_narrower_level_is_held(tmp_path: Path, capsys: Capture) -> None:
    leg = certifiable.with_rows(certifiable.leg("core"), {"layout/add@float32": {"verdict": "flaky"}})
    out = certifiable.folder(tmp_path / "out", leg)
    assert cli.main(["certify", str(out)]) == 3
    said = capsys.readouterr().out
    assert "held: bringup in eager" in said and "--level bringup --mode eager -o BUNDLE" in said
    assert cli.main(["certify", str(out), "--level", "bringup"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "either the output folder of a run or --verify"),
        (["out", "--verify", "x.zip"], "either the output folder of a run or --verify"),
        (["--verify", "x.zip", "--level", "core"], "--verify takes a bundle only"),
        (["out", "--mode", "eager", "--level", "smoke"], "level smoke certifies nothing"),
        (
            ["out", "--level", "whole"],
            "level 'whole' does not exist; certify one of bringup, core, training, full\n",
        ),
        (["out", "--mode", "lazy"], "no leg of mode lazy"),
        (["out"], "are 2 legs and a certificate is of one; give --mode"),
        (["out", "--mode", "eager", "-o", "."], "is a folder"),
        (["nothing"], "holds no results"),
        (["--verify", "nothing.zip"], "cannot be read"),
    ],
)
def test_mistakes_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    certifiable.folder(tmp_path / "out", certifiable.leg(), certifiable.leg(mode="graph"))
    assert cli.main(["certify", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_of_several_legs_the_mode_chooses(tmp_path: Path, capsys: Capture) -> None:
    out = certifiable.folder(tmp_path / "out", certifiable.leg(), certifiable.leg(mode="graph"))
    assert cli.main(["certify", str(out), "--mode", "graph"]) == 0
    assert "bringup in graph" in capsys.readouterr().out


def test_an_unknown_torch_is_one_sentence(tmp_path: Path, capsys: Capture) -> None:
    leg = certifiable.leg(torch="2.99.0", name="2.99.0-eager", build="2.99.0")
    out = certifiable.folder(tmp_path / "out", leg)
    assert cli.main(["certify", str(out)]) == 3
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and "the manifest knows no torch 2.99, only 2.13" in said


def test_results_of_another_suite_certify_nothing(tmp_path: Path, capsys: Capture) -> None:
    leg = certifiable.leg()
    leg["digests"]["suite"] = "f" * 64
    out = certifiable.folder(tmp_path / "out", leg)
    assert cli.main(["certify", str(out), "-o", str(tmp_path / "b.zip")]) == 3
    assert "another copy of the suite" in capsys.readouterr().out
    assert not (tmp_path / "b.zip").exists()


def test_results_without_a_declaration_are_of_an_older_version(tmp_path: Path, capsys: Capture) -> None:
    leg = certifiable.leg()
    del leg["target"]["declared"]
    assert cli.main(["certify", str(certifiable.folder(tmp_path / "out", leg))]) == 2
    assert "run it again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("raised OSError: /home/jane/work/x.py: no", "raised OSError: <path>: no"),
        ('File "/opt/venv/lib/torch/_ops.py", line 3', 'File "<path>", line 3'),
        ("see ~/secrets/key and C:\\Users\\jane\\a.txt", "see <path> and <path>"),
        ("file:///srv/data/a.bin", "<path>"),
        ("jane@build7.example.org refused 10.1.2.3", "<host> refused <host>"),
        (
            "value/add@float32 differs, see docs/upstream.md#out",
            "value/add@float32 differs, see docs/upstream.md#out",
        ),
        (
            "https://github.com/pytorch/pytorch/issues/84577",
            "https://github.com/pytorch/pytorch/issues/84577",
        ),
        ("at 1/2 and 3 / 4 of aten::add", "at 1/2 and 3 / 4 of aten::add"),
    ],
)
def test_paths_and_hosts_are_left_out_of_texts(text: str, wanted: str) -> None:
    assert privacy.text(text) == wanted
    assert privacy.text(wanted) == wanted


def test_a_bundle_names_no_host_path_or_other_variable(tmp_path: Path) -> None:
    secrets = ["/home/jane", "myhost", platform.node(), "SECRET", "hunter2", "6.1.0", "/opt/lib"]
    leg = certifiable.leg()
    leg["facts"]["environment"] |= {"SECRET_TOKEN": "hunter2", "PYTHONHASHSEED": "/opt/lib"}
    leg["facts"]["cwd"] = "/home/jane/run"
    leg["facts"]["torch"]["path"] = "/opt/lib/torch"
    leg["problems"] = [f"2 damaged lines in /home/jane/journal.jsonl on {platform.node()}"]
    leg["results"][0]["notes"] = [f"read /home/jane/x.py on {platform.node()}"]
    out, bundle = certifiable.folder(tmp_path / "out", leg), tmp_path / "b.zip"
    assert cli.main(["certify", str(out), "-o", str(bundle)]) == 0
    with zipfile.ZipFile(bundle) as file:
        held = "".join(file.read(name).decode() for name in file.namelist())
    words = json.dumps(json.loads(held[: held.index("\n")])) + held
    assert [secret for secret in secrets if _stands_in(secret, words)] == []
    assert "OMP_NUM_THREADS" in held and "<path>" in held and "<host>" in held


def _stands_in(secret: str, text: str) -> bool:
    """As a word of its own: a machine may be called ``vm``."""
    return re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", text) is not None


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    out = certifiable.folder(tmp_path / "out", certifiable.leg())
    for name in ("one.zip", "two.zip"):
        assert cli.main(["certify", str(out), "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_a_scrubbed_leg_stays_as_it_is() -> None:
    once = issue.scrubbed(certifiable.leg())
    check: Callable[[Any], Any] = issue.scrubbed
    assert check(once["legs"][0]) == once
