"""Hypothesis strategies that corrupt documents, and the assertion that a reader accepts a document or raises
a short UsageError.
"""

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
#: Folder for the temporary files of all Hypothesis examples. The process removes the folder at exit.
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


def node_paths(tree: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every node of a document. A path is a tuple of keys and indices, and ``here`` is the
    path of ``tree`` itself.
    """
    all_paths = [here]
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        all_paths += node_paths(value, (*here, key))
    return all_paths


@st.composite
def corrupted_documents(draw: st.DrawFn, document: Any) -> Any:
    """Draw a copy of the document with one to three changed nodes: replaced, removed, duplicated or added."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(node_paths(changed)))
        if not path:
            continue
        parent = changed
        for key in path[:-1]:
            parent = parent[key]
        how = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if how == "replace":
            parent[path[-1]] = draw(TREES)
        elif how == "remove":
            del parent[path[-1]]
        elif isinstance(parent, list):
            parent.append(copy.deepcopy(parent[path[-1]]))
        else:
            parent[draw(st.text(max_size=8))] = draw(TREES)
    return changed


def toml_text(data: Any) -> str:
    """Return the TOML text of a dict, with an empty string for each None. Return an empty text for any value
    that is not a dict.
    """
    lines: list[str] = []

    def inline_toml(value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float)):
            return repr(value)
        if isinstance(value, list):
            return "[" + ", ".join(inline_toml(item) for item in value) + "]"
        if isinstance(value, dict):
            return (
                "{"
                + ", ".join(f"{json.dumps(key)} = {inline_toml(item)}" for key, item in value.items())
                + "}"
            )
        return json.dumps("" if value is None else str(value))

    for key, value in data.items() if isinstance(data, dict) else ():
        lines.append(f"{json.dumps(key)} = {inline_toml(value)}")
    return "\n".join(lines)


def is_accepted(read: Callable[[], Any]) -> bool:
    """Return whether ``read()`` accepts its input. Assert that it otherwise raises a UsageError whose message
    is not empty, has fewer than 2000 characters and at most five lines.
    """
    try:
        read()
    except UsageError as error:
        assert str(error) and len(str(error)) < 2000 and str(error).count("\n") < 5
        return False
    return True


def temporary_file(name: str, content: bytes) -> Path:
    path = Path(tempfile.mkdtemp(dir=FOLDER.name)) / name
    path.write_bytes(content)
    return path
