"""Whatever is in a file that the suite reads, it is taken or refused in one sentence, and nothing else
happens.
"""

from __future__ import annotations

import copy
import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from suite_process import conformance

from conformance.certificate import bundle
from conformance.errors import UsageError
from conformance.expectations import aliases, entries
from conformance.expectations.entries import Book
from conformance.plan.levels import manifest as manifests
from conformance.results import document as results
from conformance.results import journal
from conformance.target import file as target_file

FUZZ = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        ["", "cpu", "pass", "fail", "../../x", "value/add@float32", "*", "@", "/", "2.13", "eager", "9e99"]
    ),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def paths(tree: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    found = [here]
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        found += paths(value, (*here, key))
    return found


@st.composite
def spoiled(draw: st.DrawFn, document: Any) -> Any:
    """A document with one to three places replaced, removed or doubled."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(paths(changed)))
        if not place:
            continue
        parent = changed
        for key in place[:-1]:
            parent = parent[key]
        how = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if how == "replace":
            parent[place[-1]] = draw(TREES)
        elif how == "remove":
            del parent[place[-1]]
        elif isinstance(parent, list):
            parent.append(copy.deepcopy(parent[place[-1]]))
        else:
            parent[draw(st.text(max_size=8))] = draw(TREES)
    return changed


def toml(data: Any) -> str:
    """TOML of a tree of dicts, lists and scalars, as far as there is one."""
    lines: list[str] = []

    def inline(value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float)):
            return repr(value)
        if isinstance(value, list):
            return "[" + ", ".join(inline(item) for item in value) + "]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(key)} = {inline(item)}" for key, item in value.items()) + "}"
        return json.dumps("" if value is None else str(value))

    for key, value in data.items() if isinstance(data, dict) else ():
        lines.append(f"{json.dumps(key)} = {inline(value)}")
    return "\n".join(lines)


def taken_or_refused(read: Callable[[], Any]) -> bool:
    """Whether it was taken; a refusal must be a UsageError of one paragraph."""
    try:
        read()
    except UsageError as error:
        assert str(error) and len(str(error)) < 2000 and str(error).count("\n") < 5
        return False
    return True


def written(name: str, content: bytes) -> Path:
    path = Path(tempfile.mkdtemp(prefix="fuzz-")) / name
    path.write_bytes(content)
    return path


TARGET = target_file.tomllib.loads(target_file.find("hpu-reference").read_text())
EXPECTATIONS = target_file.tomllib.loads((Path(aliases.FOLDER) / "cpu" / "numerics.toml").read_text())


@FUZZ
@given(spoiled(TARGET))
def test_target_files(data: Any) -> None:
    path = written("t.toml", toml(data).encode("utf-8", "replace"))
    taken_or_refused(lambda: target_file.load(str(path)))


@FUZZ
@given(st.binary(max_size=300))
def test_target_files_of_any_bytes(data: bytes) -> None:
    path = written("t.toml", data)
    taken_or_refused(lambda: target_file.load(str(path)))


@FUZZ
@given(spoiled(EXPECTATIONS))
def test_expectations(data: Any) -> None:
    path = written("e.toml", toml(data).encode("utf-8", "replace"))
    taken_or_refused(lambda: entries.load([path]))


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The results of a run with something of everything."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-run-"))
    run = conformance(folder, "run", "-n", "1", "--level", "core", sham="good,fail,unsupported")
    return run.results


def test_results(document: dict[str, Any]) -> None:
    @FUZZ
    @given(spoiled(document))
    def fuzz(data: Any) -> None:
        path = written("results.json", json.dumps(data).encode())
        taken_or_refused(lambda: results.read(path))

    fuzz()


def test_results_of_any_bytes() -> None:
    @FUZZ
    @given(st.binary(max_size=300) | st.integers(1, 5000).map(lambda depth: b"[" * depth))
    def fuzz(data: bytes) -> None:
        path = written("results.json", data)
        assert not taken_or_refused(lambda: results.read(path))

    fuzz()


def test_bundles(document: dict[str, Any]) -> None:
    certificate = {"certificate": 1, "level": "core", "mode": "eager"}

    @FUZZ
    @given(
        spoiled(certificate),
        spoiled(document),
        st.sampled_from(["certificate.json", "../x", "/x", "a/b", "c\x00"]),
    )
    def fuzz(one: Any, other: Any, name: str) -> None:
        kept = io.BytesIO()
        with zipfile.ZipFile(kept, "w") as file:
            file.writestr(name, json.dumps(one))
            file.writestr("results.json", json.dumps(other))
        path = written("bundle.zip", kept.getvalue())
        taken_or_refused(lambda: bundle.read(path))

    fuzz()


@FUZZ
@given(st.binary(max_size=300))
def test_bundles_of_any_bytes(data: bytes) -> None:
    path = written("bundle.zip", data)
    assert not taken_or_refused(lambda: bundle.read(path))


def test_manifests() -> None:
    whole = json.loads(manifests.PATH.read_text())
    small = {
        key: value[:3]
        if isinstance(value, list)
        else dict(list(value.items())[:3])
        if isinstance(value, dict)
        else value
        for key, value in whole.items()
    }

    @FUZZ
    @given(spoiled(small))
    def fuzz(data: Any) -> None:
        path = written("manifest.json", json.dumps(data).encode())
        taken_or_refused(lambda: manifests.load(path))

    fuzz()


@FUZZ
@given(st.lists(st.one_of(TREES, st.just({"event": "result"})), max_size=5), st.binary(max_size=60))
def test_journals(events: list[Any], tail: bytes) -> None:
    lines = b"\n".join(json.dumps(event, separators=(",", ":")).encode() for event in events)
    path = written("journal.jsonl", lines + b"\n" + tail)
    taken_or_refused(lambda: journal.read(path))
    book = Book((), "")
    taken_or_refused(lambda: results.from_journal(path, book))
