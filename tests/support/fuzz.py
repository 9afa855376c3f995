"""Strategies that spoil documents, and the check that a reader takes or refuses what it is given."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from conformance.errors import UsageError

FUZZ = settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
#: Holds the files of the examples; the process removes it at its end.
FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-")

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
    """Return True if it was accepted; a refusal must be a UsageError of one paragraph."""
    try:
        read()
    except UsageError as error:
        assert str(error) and len(str(error)) < 2000 and str(error).count("\n") < 5
        return False
    return True


def written(name: str, content: bytes) -> Path:
    path = Path(tempfile.mkdtemp(dir=FOLDER.name)) / name
    path.write_bytes(content)
    return path
