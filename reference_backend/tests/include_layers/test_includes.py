"""The layers of csrc: a file includes only files of its own layer and of lower layers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[2] / "csrc"

# From the lowest to the highest: a folder of csrc, or a file next to the folders.
ORDER = (
    "torch_release.h",
    "compat",
    "runtime",
    "memory",
    "device",
    "kernels",
    "engine",
    "graph",
    "dispatch",
    "distributed",
    "bindings",
)

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
NAMESPACE = re.compile(r"^\s*namespace\s+hpu_reference::(\w+)", re.MULTILINE)


def layer(path: str) -> str:
    return path.partition("/")[0]


def faults(files: Mapping[str, str]) -> list[str]:
    """Return messages about includes and namespaces that break the order. ``files``: path below
    csrc -> text.
    """
    rank = {name: position for position, name in enumerate(ORDER)}
    sentences = []
    for path in sorted(files):
        here = layer(path)
        if here not in rank:
            sentences.append(f"{path} is in no layer")
            continue
        for quote, target in INCLUDE.findall(files[path]):
            if quote == "<" and target not in files:
                continue  # a header of torch or of the system
            if target not in files:
                sentences.append(f"{path} includes {target}, which is not a file of csrc")
            elif rank.get(layer(target), len(ORDER)) > rank[here]:
                sentences.append(f"{path} includes {target}, which is above it")
        sentences += [
            f"{path} opens the namespace {name}, which is not its folder's"
            for name in NAMESPACE.findall(files[path])
            if name != here
        ]
    return sentences


def read(folder: Path) -> dict[str, str]:
    """Return every C++ file below the folder, by its relative path."""
    paths = [path for path in folder.rglob("*") if path.suffix in {".h", ".cpp"}]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


def test_csrc_goes_one_way() -> None:
    files = read(CSRC)
    assert {layer(path) for path in files} == set(ORDER)
    assert sum(len(INCLUDE.findall(text)) for text in files.values()) > len(files)
    assert faults(files) == []


def test_every_folder_states_its_purpose() -> None:
    for name in ORDER[1:]:
        readme = CSRC / name / "README.md"
        lines = readme.read_text().splitlines()
        assert lines[0] == f"# {name}" and lines[2].endswith("."), readme


def test_an_upward_include_in_the_tree_is_red(tmp_path: Path) -> None:
    copy = tmp_path / "csrc"
    shutil.copytree(CSRC, copy)
    header = copy / "runtime" / "queue.h"
    header.write_text(
        header.read_text().replace("#pragma once\n", '#pragma once\n#include "graph/graph.h"\n')
    )
    assert faults(read(copy)) == ["runtime/queue.h includes graph/graph.h, which is above it"]


@pytest.mark.parametrize("below", range(len(ORDER) - 1))
def test_each_layer_refuses_the_one_above(below: int) -> None:
    lower, upper = (name if "." in name else f"{name}/a.h" for name in ORDER[below : below + 2])
    assert faults({lower: "", upper: f'#include "{lower}"\n'}) == []
    assert faults({lower: f'#include "{upper}"\n', upper: ""}) == [
        f"{lower} includes {upper}, which is above it"
    ]


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"cuda/a.h": ""}, "cuda/a.h is in no layer"),
        (
            {"cuda/a.h": "", "bindings/b.cpp": '#include "cuda/a.h"\n'},
            "bindings/b.cpp includes cuda/a.h, which is above it",
        ),
        (
            {"memory/a.h": '#include "../graph/b.h"\n'},
            "memory/a.h includes ../graph/b.h, which is not a file of csrc",
        ),
        (
            {"memory/a.h": "#  include <graph/b.h>\n", "graph/b.h": ""},
            "memory/a.h includes graph/b.h, which is above it",
        ),
        (
            {"memory/a.h": "namespace hpu_reference::graph {\nclass Graph;\n}\n"},
            "memory/a.h opens the namespace graph, which is not its folder's",
        ),
    ],
)
def test_other_ways_around_the_order_are_red(files: dict[str, str], sentence: str) -> None:
    assert sentence in faults(files)


def test_headers_of_others_and_the_own_layer_are_free() -> None:
    files = {
        "engine/a.h": "#include <torch/library.h>\n",
        "engine/b.cpp": '#include "engine/a.h"\n#include "memory/c.h"\n',
        "memory/c.h": "namespace hpu_reference::memory {}\n",
    }
    assert faults(files) == []
