"""Test the layers of csrc: a file includes only files of its own layer and of lower layers."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[2] / "csrc"

# Layers from the lowest to the highest. A layer is a folder of csrc, or a file next to the folders.
ORDER = (
    "device_key.h",
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


def layer_of(path: str) -> str:
    return path.partition("/")[0]


def include_errors(files: Mapping[str, str]) -> list[str]:
    """Return a message for each include or namespace that breaks the order of layers.

    ``files`` maps each path below csrc to the text of the file.
    """
    rank = {name: position for position, name in enumerate(ORDER)}
    sentences = []
    for path in sorted(files):
        here = layer_of(path)
        if here not in rank:
            sentences.append(f"{path} belongs to none of the layers")
            continue
        for quote, target in INCLUDE.findall(files[path]):
            if quote == "<" and target not in files:
                continue  # a header of torch or of the system
            if target not in files:
                sentences.append(f"{path} includes {target}, which is not a file of csrc")
            elif rank.get(layer_of(target), len(ORDER)) > rank[here]:
                sentences.append(f"{path} includes {target}, which is in a higher layer")
        sentences += [
            f"{path} opens the namespace {name}, which differs from its folder"
            for name in NAMESPACE.findall(files[path])
            if name != here
        ]
    return sentences


def read_cpp_files(folder: Path) -> dict[str, str]:
    """Return every C++ file below the folder, by its relative path."""
    paths = [path for path in folder.rglob("*") if path.suffix in {".h", ".cpp"}]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


def test_csrc_includes_only_lower_layers() -> None:
    files = read_cpp_files(CSRC)
    assert {layer_of(path) for path in files} == set(ORDER)
    assert sum(len(INCLUDE.findall(text)) for text in files.values()) > len(files)
    assert include_errors(files) == []


def test_every_folder_states_its_purpose() -> None:
    for name in (layer for layer in ORDER if not layer.endswith(".h")):
        readme = CSRC / name / "README.md"
        lines = readme.read_text().splitlines()
        assert lines[0] == f"# {name}" and lines[2].endswith("."), readme


def test_include_of_a_higher_layer_in_csrc_is_reported(tmp_path: Path) -> None:
    copy = tmp_path / "csrc"
    shutil.copytree(CSRC, copy)
    header = copy / "runtime" / "queue.h"
    header.write_text(
        header.read_text().replace("#pragma once\n", '#pragma once\n#include "graph/graph.h"\n')
    )
    assert include_errors(read_cpp_files(copy)) == [
        "runtime/queue.h includes graph/graph.h, which is in a higher layer"
    ]


@pytest.mark.parametrize("below", range(len(ORDER) - 1))
def test_include_of_the_next_higher_layer_is_reported(below: int) -> None:
    lower, upper = (name if "." in name else f"{name}/a.h" for name in ORDER[below : below + 2])
    assert include_errors({lower: "", upper: f'#include "{lower}"\n'}) == []
    assert include_errors({lower: f'#include "{upper}"\n', upper: ""}) == [
        f"{lower} includes {upper}, which is in a higher layer"
    ]


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"cuda/a.h": ""}, "cuda/a.h belongs to none of the layers"),
        (
            {"cuda/a.h": "", "bindings/b.cpp": '#include "cuda/a.h"\n'},
            "bindings/b.cpp includes cuda/a.h, which is in a higher layer",
        ),
        (
            {"memory/a.h": '#include "../graph/b.h"\n'},
            "memory/a.h includes ../graph/b.h, which is not a file of csrc",
        ),
        (
            {"memory/a.h": "#  include <graph/b.h>\n", "graph/b.h": ""},
            "memory/a.h includes graph/b.h, which is in a higher layer",
        ),
        (
            {"memory/a.h": "namespace hpu_reference::graph {\nclass Graph;\n}\n"},
            "memory/a.h opens the namespace graph, which differs from its folder",
        ),
    ],
)
def test_other_violations_of_the_order_are_reported(files: dict[str, str], sentence: str) -> None:
    assert sentence in include_errors(files)


def test_system_headers_and_the_own_layer_are_allowed() -> None:
    files = {
        "engine/a.h": "#include <torch/library.h>\n",
        "engine/b.cpp": '#include "engine/a.h"\n#include "memory/c.h"\n',
        "memory/c.h": "namespace hpu_reference::memory {}\n",
    }
    assert include_errors(files) == []
