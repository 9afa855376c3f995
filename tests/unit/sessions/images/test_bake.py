"""The bake file of the images is complete, and ``sessions.images.bake`` rejects syntax that it does not
support.
"""

from __future__ import annotations

import re

import pytest

from sessions.images import bake
from tests.support import ROOT

FILE = ROOT / "docker" / "docker-bake.json"


def test_every_image_is_complete():
    groups, images = bake.load_images(FILE, {"REGISTRY": "host/name", "REVISION": "abc"})
    assert len(images) == 8 and set(groups["all"]) == set(images) and set(groups["default"]) < set(images)
    assert len({tag for image in images.values() for tag in image.tags}) == len(images)
    for image in images.values():
        args = image.args
        assert set(args) == {"BASE", "PYTHON", "KIND", "TORCH", "REVISION", "SOURCE"}
        assert args["REVISION"] == "abc" and args["SOURCE"] == "unknown"
        assert re.fullmatch(r"python:[0-9.]+-slim-bookworm@sha256:[0-9a-f]{64}", args["BASE"])
        assert args["BASE"].startswith(f"python:{args['PYTHON']}-")
        name = f"torch{args['TORCH']}-{args['KIND']}-py{args['PYTHON'].replace('.', '')}"
        assert image.tags == (f"host/name:{name}",)
        assert image.name == name.replace("torch", "torch-").replace(".", "-")
        assert (ROOT / "docker" / "requirements" / f"{args['TORCH']}.txt").is_file()
        assert (ROOT / image.dockerfile).is_file() and image.target == "test"


def test_requirements_are_locked_and_do_not_contain_torch():
    for file in (ROOT / "docker" / "requirements").glob("*.txt"):
        lines = file.read_text().splitlines()
        names = [line.split("==")[0] for line in lines if line and not line.startswith(" ")]
        assert "numpy" in names and "torch" not in names
        assert not any(name.startswith(("nvidia", "cuda", "triton")) for name in names)
        assert sum("--hash=sha256:" in line for line in lines) >= len(names)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"target": {"a": {"tags": ["x"], "platforms": ["y"]}}}', "has the unknown key 'platforms'"),
        ('{"target": {"a": {"inherits": ["b"], "tags": ["x"]}}}', "target b is inherited"),
        ('{"target": {"a": {"inherits": ["a"], "tags": ["x"]}}}', "inherits itself"),
        (
            '{"target": {"a": {"context": ".", "dockerfile": "d", "target": "t", "tags": ["${X}"]}}}',
            "variable X",
        ),
        (
            '{"target": {"a": {"context": ".", "dockerfile": "d", "target": "t", "tags": ["${upper(X)}"]}}}',
            "contains an expression",
        ),
        ('{"group": {"g": {"targets": ["a"]}}}', "which is not an image"),
        ('{"target": {"a": {"tags": ["x"]}, "a": {"tags": ["x"]}}}', "defined twice"),
        ('{"function": {"f": {}}}', "has the unknown key 'function'"),
        ('target "a" {}', "is not JSON"),
    ],
)
def test_unsupported_syntax_is_rejected(text, says, tmp_path):
    file = tmp_path / "bake.json"
    file.write_text(text + "\n")
    with pytest.raises(bake.UnreadableBakeFile, match=re.escape(says)):
        bake.load_images(file, {})
