"""Files that the suite reads and writes: journals, results, targets, expectations, reports."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from expecttest import assert_expected_inline
from test_verdicts import leg

from conformance.errors import UsageError
from conformance.expectations import entries
from conformance.expectations.entries import Book
from conformance.model.schema import FOLDER, Schema, SchemaError
from conformance.model.verdicts import Kind, Placement, Verdict
from conformance.model.vocabulary import CAPABILITIES
from conformance.oracle import announcements
from conformance.report import html, junit
from conformance.report.compact import LETTERS, compact
from conformance.results import document as results
from conformance.results import journal
from conformance.target import file as target_file


def _write_many(path: Path, name: str) -> None:
    writer = journal.Journal(path)
    for index in range(300):
        writer.write("result", name=name, index=index, text="x" * 5000)


def test_processes_that_append_at_once_never_mix_lines(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(path, name)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    events, damaged = journal.read(path)
    assert (len(events), damaged) == (600, 0)


@pytest.mark.parametrize(
    ("text", "events", "damaged"),
    [
        ('{"event":"a"}\n{"event":"b"}\n', 2, 0),
        ('{"event":"a"}\n{"event":"b","mess', 1, 1),
        ('{"event":"a","mess{"event":"b"}\n{"event":"c"}\n', 2, 1),
        ('{"event":"a","m":"{\\"event\\":1}"}\n\n', 1, 0),
        ("null\n[]\nnonsense\n", 0, 3),
    ],
)
def test_a_torn_line_costs_only_itself(tmp_path: Path, text: str, events: int, damaged: int) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(text)
    found, count = journal.read(path)
    assert (len(found), count) == (events, damaged)


def test_a_journal_is_followed_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    tail = journal.Tail(path)
    assert list(tail.read()) == []
    path.write_text('{"event":"a"}\n{"eve')
    assert [event["event"] for event in tail.read()] == ["a"]
    path.write_text('{"event":"a"}\n{"event":"b"}\n')
    assert [event["event"] for event in tail.read()] == ["b"]


def test_announcements_reach_the_journal_of_a_run_only(tmp_path: Path) -> None:
    assert not announcements.wanted()
    announcements.announce("mul", "float32", 0, "d0")
    writer = journal.Journal(tmp_path / "journal.jsonl")
    announcements.send_to(journal.oracle_events(writer))
    try:
        announcements.announce("add", "float32", 1, "d1")
    finally:
        announcements.send_to(None)
    expected = {"event": "oracle", "op": "add", "dtype": "float32", "index": 1, "digest": "d1"}
    assert journal.read(writer.path)[0] == [expected]


def document() -> dict[str, Any]:
    found = results.document([leg("pass", "fail", "unsupported")])
    found["legs"][0]["results"][1]["failures"] = [
        {"kind": "value", "message": "</script><b>&\u2028 \x00 differs"}
    ]
    return found


def test_results_are_checked_when_written_and_when_read(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    good = document()
    good["legs"][0]["seconds"] = 1.5
    results.write(path, good)
    assert results.read(path) == good
    with pytest.raises(UsageError, match=r"have \d+ bytes; at most 100 are read"):
        results.read(path, limit=100)
    good["legs"][0]["results"][0]["verdict"] = "passed"
    with pytest.raises(
        SchemaError, match=r"^\.legs\[0\]\.results\[0\]\.verdict: 'passed' is not one of crash, "
    ):
        results.write(path, good)
    assert results.read(path)["legs"][0]["results"][0]["verdict"] == "pass", "a bad document replaces nothing"
    path.write_text(json.dumps(good))
    with pytest.raises(UsageError, match="do not follow the schema"):
        results.read(path)
    path.write_text("[" * 100_000)
    with pytest.raises(UsageError, match="do not follow the schema"):
        results.read(path)


@pytest.mark.parametrize(
    ("schema", "good", "bad", "where"),
    [
        ({"type": "integer"}, 3, True, ": True is not of type integer"),
        ({"type": ["string", "null"]}, None, 3, ": 3 is not of type string or null"),
        ({"type": "object", "required": ["a"]}, {"a": 1}, {}, ": key 'a' is missing"),
        (
            {"properties": {"a": {"minimum": 0}}, "additionalProperties": False},
            {"a": 0},
            {"a": -1},
            ".a: -1 is below 0",
        ),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"a": 0},
            {"b": 1},
            ": key 'b' is unknown",
        ),
        ({"additionalProperties": {"type": "string"}}, {"x": "y"}, {"x": 1}, ".x: 1 is not of type string"),
        ({"items": {"maxLength": 2}}, ["ab"], ["a", "abc"], "[1]: has 3 of at most 2 characters"),
        ({"type": "string", "pattern": "^a+$"}, "aa", "ab", ": 'ab' does not match ^a+$"),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"const": 1}}}, 1, 2, ": 2 is not 1"),
    ],
)
def test_the_validator(schema: dict[str, Any], good: object, bad: object, where: str) -> None:
    compiled = Schema(schema)
    compiled.validate(good)
    with pytest.raises(SchemaError) as error:
        compiled.validate(bad)
    assert str(error.value) == where


def test_the_validator_refuses_keywords_that_it_would_not_check() -> None:
    with pytest.raises(SchemaError, match="'oneOf' is not known"):
        Schema({"oneOf": []})


def test_the_schema_knows_the_words_of_the_model() -> None:
    definitions = json.loads((FOLDER / "results.json").read_text())["$defs"]
    assert definitions["verdict"]["enum"] == [verdict.value for verdict in Verdict]
    assert definitions["kind"]["enum"] == [kind.value for kind in Kind]
    placements = definitions["result"]["properties"]["placement"]["enum"]
    assert placements == [placement.value for placement in Placement]
    assert set(LETTERS) == set(Verdict)
    assert len(set(LETTERS.values())) == len(Verdict)


def test_the_report_carries_compact_data() -> None:
    found = compact(document())["legs"][0]
    kept = {key: found[key] for key in ("command", "subjects", "properties", "dtypes", "cases", "details")}
    assert_expected_inline(
        json.dumps(kept, indent=1, ensure_ascii=True),
        """\
{
 "command": "conformance repro RESULT --target cpu --mode eager",
 "subjects": [
  "s0",
  "s1",
  "s2"
 ],
 "properties": [
  "p"
 ],
 "dtypes": [
  "d"
 ],
 "cases": [
  [
   0,
   0,
   [
    0
   ],
   ".",
   -1,
   [
    [
     0,
     0,
     0,
     0,
     500.0
    ]
   ]
  ],
  [
   1,
   0,
   [
    0
   ],
   "F",
   -1,
   [
    [
     0,
     0,
     0,
     0,
     500.0
    ]
   ]
  ],
  [
   2,
   0,
   [
    0
   ],
   "u",
   -1,
   [
    [
     0,
     0,
     0,
     0,
     500.0
    ]
   ]
  ]
 ],
 "details": {
  "p/s1@d": {
   "failures": [
    {
     "kind": "value",
     "message": "</script><b>&\\u2028 \\u0000 differs"
    }
   ]
  }
 }
}""",
    )


def test_the_report_stands_alone_and_no_message_escapes_from_it(tmp_path: Path) -> None:
    page = html.page(document())
    assert page.count("</script>") == 2
    assert "<b>&" not in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    data = page.partition('type="application/json">')[2].partition("</script>")[0]
    assert not set("<>&") & set(data)
    assert json.loads(data)["legs"][0]["subjects"] == ["s0", "s1", "s2"]


def test_junit_xml_is_xml_whatever_the_messages_hold(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    junit.write(path, document())
    text = path.read_text()
    assert "\x00" not in text
    assert '<failure type="fail" message="fail: d">' in text


GOOD_TARGET = 'schema = 1\nname = "mine"\ndevice = "cpu"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema = 2", "schema is 2; this version of the suite reads schema = 1"),
        ("schema = ", "is not TOML"),
        ('schema = 1\ndevice = "cpu"', "name is None; it must be a non-empty string"),
        (GOOD_TARGET + "modus = 1", "unknown key 'modus'; known are schema, name"),
        (GOOD_TARGET + 'dtypes = ["float31"]', "unknown word in dtypes: 'float31'; known are float32"),
        (GOOD_TARGET + "dtypes = []", "it must be a non-empty list of words"),
        (GOOD_TARGET + 'modes = ["fast"]', "unknown word in modes: 'fast'"),
        (GOOD_TARGET + 'precision = "good"', "unknown precision 'good'; known are ieee, tf32"),
        (GOOD_TARGET + "[capabilities]\nstream = true", "unknown capability 'stream'; known are autograd"),
        (
            GOOD_TARGET + '[capabilities]\nstreams = "yes"',
            "capability streams is 'yes'; it must be true or false",
        ),
        (GOOD_TARGET + '[hooks]\nsync = "a:b"', "unknown hook 'sync'; known are synchronize"),
        (GOOD_TARGET + '[hooks]\ndelay = "a.b"', "must be of the form module:function"),
        (GOOD_TARGET + '[unsupported]\n"add" = "why"', "is not of the form property/subject@dtype"),
        (GOOD_TARGET + '[unsupported]\n"*/add@*" = ""', "has no reason"),
        (GOOD_TARGET + '[operators.add]\ndtype = ["bool"]', "unknown key in operators.add: 'dtype'"),
        (
            GOOD_TARGET + "[compile]\nmode = 1",
            "unknown key in compile: 'mode'; known are backend, options, fused_",
        ),
        (GOOD_TARGET + "[compile]\nbackend = 1", "compile.backend is 1; it must be the name of a backend"),
        (GOOD_TARGET + "[compile]\noptions = 1", "options is 1; it must be a table"),
        (GOOD_TARGET + "compile = 1", "compile is 1; it must be a table"),
        (GOOD_TARGET + "[environment]\nA = 1", "must be a string, or a table named after a mode"),
        (GOOD_TARGET + '[environment.fast]\nA = "1"', "unknown mode in environment: 'fast'"),
    ],
)
def test_mistakes_in_a_target_file_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        target_file.load(str(path))
    assert message in str(error.value)


def test_a_target_file_says_everything(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        GOOD_TARGET
        + 'modes = ["lazy", "eager"]\n[operators.add]\ndtypes = []\n'
        + '[environment]\nA = "1"\n[environment.lazy]\nA = "2"\n'
        + '[unsupported]\n"*/fft_*@float16" = "no half transforms"\n[capabilities]\nstreams = false\n'
    )
    file = target_file.load(str(path))
    target = file.target("lazy")
    assert (target.environment, file.target("eager").environment) == ({"A": "2"}, {"A": "1"})
    assert (target.capable("streams"), target.capable("events")) == (False, True)
    assert target.dtype_overrides == {"add": frozenset()}
    assert file.default_mode == "eager"
    assert (target.compile_backend, target.compile_options, target.fused_options) == ("inductor", {}, None)
    with pytest.raises(
        UsageError, match=r"declares no mode 'graph'; use lazy, eager or add it to mine\.toml"
    ):
        file.check_mode("graph")


def test_what_torch_compile_is_given(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        GOOD_TARGET
        + '[compile]\nbackend = "mine"\noptions = {depth = 2}\nfused_options = {fuse = true}\n'
        + '[hooks]\ngraph = "a:b"\nmark_step = "a:b"\nexecuted_ops = "a:b"\ncompiled_graphs = "a:b"\n'
    )
    target = target_file.load(str(path)).target("eager")
    assert (target.compile_backend, target.compile_options) == ("mine", {"depth": 2})
    assert target.fused_options == {"fuse": True}
    assert target.has_graphs


def test_known_targets_are_good_and_unknown_ones_are_named() -> None:
    assert [
        target_file.load(name).name for name in target_file.known_targets()
    ] == target_file.known_targets()
    with pytest.raises(UsageError, match=r"no target is called 'gpu'; known are cpu, .*hpu-reference"):
        target_file.load("gpu")
    with pytest.raises(UsageError, match="does not exist; write one with"):
        target_file.load("none.toml")
    assert all(word.isidentifier() and text for word, text in CAPABILITIES.items())


GOOD_ENTRY = {
    "id": "value/add@*",
    "kind": "value",
    "reason": "accuracy",
    "link": "https://example.org",
    "until": "2999-01-01",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "add"}, "is not of the form"),
        ({"kind": "harness"}, "kind 'harness' cannot be expected"),
        ({"kind": "vacuous"}, "kind 'vacuous' cannot be expected"),
        ({"reason": "because"}, "unknown reason 'because'; known are accuracy"),
        ({"link": "me"}, "is neither a web address nor a page below docs/"),
        ({"until": "soon"}, "is neither a date"),
        ({"until": "2030-02-30"}, "is no day of the calendar"),
        ({"until": ""}, "it must be a non-empty string"),
        ({"owner": "me"}, "unknown key 'owner'"),
    ],
)
def test_mistakes_in_expectations_are_named(tmp_path: Path, change: dict[str, str], message: str) -> None:
    path = tmp_path / "known.toml"
    lines = [f'{key} = "{value}"' for key, value in {**GOOD_ENTRY, **change}.items()]
    path.write_text("schema = 1\n[[expect]]\n" + "\n".join(lines))
    with pytest.raises(UsageError) as error:
        entries.load([path])
    assert message in str(error.value)


def test_the_reference_device_is_excused_only_with_the_cpu() -> None:
    cpu, device = (entries.load(entries.sources(name)).entries for name in ("cpu", "hpu-reference"))
    assert {entry.reason for entry in (*cpu, *device)} == {"upstream"}
    # Torch's fault on every device but the CPU (docs/upstream.md#narrow).
    accelerators = {"compile_value/narrow", "compile_views/narrow"}
    rest = {(entry.id, entry.kind) for entry in device if entry.id.split("@")[0] not in accelerators}
    assert rest <= {(entry.id, entry.kind) for entry in cpu}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"seconds":0.5', '"seconds":Infinity', "Infinity is not a number in JSON"),
        ('"id":"p/s1@d"', '"id":"p/s0@d"', "result 'p/s0@d' appears twice"),
        ('"verdict":"fail"', '"verdict":"pass"', "cases is not what the results add up to"),
        ('"totals":{"fail":1,', '"totals":{"fail":2,', "totals is not what the results add up to"),
        ('"planned":3', '"planned":4', "planned is not what the results add up to"),
        ('"missing":{"count":0', '"missing":{"count":1', "planned is not what the results add up to"),
    ],
)
def test_results_that_do_not_add_up_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "results.json"
    results.write(path, document())
    head, middle, rest = path.read_text().partition('"legs":')
    assert old in rest
    path.write_text(head + middle + rest.replace(old, new, 1))
    with pytest.raises(UsageError, match=message) as error:
        results.read(path)
    assert "\n" not in str(error.value)


def test_a_journal_whose_start_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text('{"event":"run","mode":"eager"}\n{"event":"plan","cases":[[1]],"dtypes":[]}\n')
    with pytest.raises(UsageError, match="is damaged: "):
        results.from_journal(path, Book((), ""))
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        results.from_journal(tmp_path / "none.jsonl", Book((), ""))


def test_half_a_character_is_written_as_a_question_mark(tmp_path: Path) -> None:
    """A device's message may hold one; a file with it could be shown nowhere."""
    found = document()
    found["legs"][0]["problems"] = ["a file 'x\udcff' of \u00e9\U0001f600"]
    path = tmp_path / "results.json"
    results.write(path, found)
    assert results.read(path)["legs"][0]["problems"] == ["a file 'x?' of \u00e9\U0001f600"]
    assert found["legs"][0]["problems"] == ["a file 'x\udcff' of \u00e9\U0001f600"]
