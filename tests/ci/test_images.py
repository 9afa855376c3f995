"""A saved image is pushed under the release's name, and its digest handed on."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path

import pytest

from conformance import cli
from conformance.ci import images
from conformance.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
DIGEST = "sha256:" + "1" * 64
DOCKER = f"""#!{sys.executable}
import os, sys
words = sys.argv[1:]
said = sys.stdin.read() if "--password-stdin" in words else ""
open(os.environ["SAID"], "a").write(" ".join(words) + "\\n" + (f"stdin {{said}}\\n" if said else ""))
if words[0] == "load":
    print("Loaded image: conformance:torch2.13.0-public-py311")
if words[0] == "push":
    if "DENIED" in os.environ:
        sys.exit("denied: permission")
    print("torch: digest: {DIGEST} size: 1000")
"""


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """A program ``docker`` that writes down what it was told."""
    program = tmp_path / "programs" / "docker"
    program.parent.mkdir()
    program.write_text(DOCKER)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    monkeypatch.setenv("GH_TOKEN", "secret")
    monkeypatch.setenv("GITHUB_ACTOR", "somebody")
    (tmp_path / "image.tar").touch()
    return tmp_path


def pushed(folder, **changes):
    known = {"repository": "Owner/Name", "version": "v1.2", **changes}
    words = [f"--{name}={value}" for name, value in known.items()]
    return cli.main(["ci", "push", str(folder / "image.tar"), *words])


def test_a_push(docker, outputs):
    assert pushed(docker) == 0
    said = (docker / "said").read_text().splitlines()
    assert "push ghcr.io/owner/name:v1.2-torch2.13.0-public-py311" in said
    assert "stdin secret" in said
    assert not any("secret" in line for line in said if not line.startswith("stdin"))
    written = outputs.read_text().splitlines()
    assert "ghcr.io/owner/name" in written and DIGEST in written


def test_a_push_that_is_denied(docker, outputs, monkeypatch, capsys):
    monkeypatch.setenv("DENIED", "1")
    assert pushed(docker) == 2
    assert "docker push failed: denied" in capsys.readouterr().err
    assert not outputs.exists()


@pytest.mark.parametrize(
    "changes",
    [{"version": "v1;x"}, {"version": ""}, {"repository": "a/../b"}, {"registry": "host/path"}],
)
def test_names_are_plain(changes, docker):
    assert pushed(docker, **changes) == 2
    assert not (docker / "said").exists()


def test_there_is_no_image(tmp_path):
    with pytest.raises(UsageError, match="there is no image"):
        images.push(tmp_path / "x.tar", "ghcr.io", "a/b", "v1", "u", "t")


def test_the_release_pushes_all_images_of_the_bake_file():
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    bake = (ROOT / "docker" / "docker-bake.hcl").read_text()
    tagged = re.findall(r'^target "(torch-[^"]+-py\d+)" \{', bake, re.M)
    assert len(tagged) == 8
    assert re.findall(r"^ {10}- (torch-\S+)$", workflow, re.M).count(tagged[0]) == 2
    assert set(re.findall(r"^ {10}- (torch-\S+)$", workflow, re.M)) == set(tagged)
