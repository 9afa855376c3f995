"""``builds.describe`` determines the kind of a torch build and its evidence. ``builds.torch_guard`` detects a
replaced torch.
"""

from __future__ import annotations

import json
import re
import sys

import pytest

from conformance import cli
from conformance.builds import describe, known_builds, torch_guard
from conformance.errors import UsageError


def test_a_public_release(create_site_packages):
    build = describe.describe_folder(create_site_packages("2.6.0+cu124", abi=0))
    assert (build.version, build.git_version, build.kind, build.abi) == (
        "2.6.0+cu124",
        "cf30153c4c13",
        "public",
        "0",
    )
    assert "installed from a wheel" in build.evidence[0]


@pytest.mark.parametrize(
    ("version", "extra", "kind", "evidence"),
    [
        (
            "2.13.0+gitcf30153",
            "repacked_from = '2.13.0+cpu'\n",
            "fork-like",
            "repacked_from = '2.13.0\\+cpu'",
        ),
        ("2.6.0a0+git2236df1", "", "source", "a fork or public PyTorch"),
        ("2.13.0+hpu.1.21", "", "source", "'hpu.1.21'"),
        ("2.14.0.dev20260708+cpu", "", "public", "release or nightly"),
        ("2.6.0+metax3", "", "unknown", "not a release of PyTorch"),
        ("2.7.1+musa", "", "unknown", "not a release of PyTorch"),
        ("2.4.1+das.opt1.dtk25041", "", "unknown", "not a release of PyTorch"),
        ("2.9.0+rocm6.4", "", "public", "release or nightly"),
        ("2.13.0b3", "", "unknown", "not a release of PyTorch"),
    ],
)
def test_the_kind_of_a_build_and_its_evidence(create_site_packages, version, extra, kind, evidence):
    build = describe.describe_folder(create_site_packages(version, extra=extra))
    assert build.kind == kind
    assert re.search(evidence, build.evidence[0])


def test_a_release_version_without_a_record_is_of_kind_unknown(create_site_packages):
    """A release version proves nothing if the folder has no RECORD, because any build can have this version.
    pip writes RECORD when it installs a wheel.
    """
    build = describe.describe_folder(create_site_packages("2.13.0", recorded=False))
    assert (build.kind, build.record) == ("unknown", None)


def test_a_known_digest_and_a_marker_outrank_the_label(create_site_packages, monkeypatch):
    folder = create_site_packages("2.6.0a0+git2236df1")
    (folder / "torch" / "_fork.json").write_text("{}")
    assert describe.describe_folder(folder).kind == "fork"
    record = describe.describe_folder(folder).record
    monkeypatch.setattr(
        known_builds, "known_builds", lambda: {record: known_builds.KnownBuild("public", "torch-x.whl")}
    )
    build = describe.describe_folder(folder)
    assert build.kind == "public" and "torch-x.whl" in build.evidence[0]


def test_the_table_of_known_builds_is_valid():
    for record, entry in known_builds.known_builds().items():
        assert len(record) == 64 and entry.kind in ("public", "fork") and entry.name


def test_the_description_does_not_import_torch(create_site_packages, capsys):
    """The description does not import torch: the torch in the folder would raise an error."""
    folder = create_site_packages()
    assert describe.describe_folder(folder).version == "2.13.0+cpu"
    assert cli.main(["torch", "describe", "--python", sys.executable, "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert describe.Build.from_json(described).kind in describe.KINDS


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ({"version": "2.15.0+cu132"}, "the version of torch was 2.13.0a0+gitcf30153 and is 2.15.0+cu132"),
        ({"abi": 0}, "the C++ ABI of torch was 1 and is 0"),
    ],
)
def test_a_replaced_torch_is_detected(create_site_packages, tmp_path, after, message):
    file = tmp_path / "before.json"
    torch_guard.write_record(describe.describe_folder(create_site_packages("2.13.0a0+gitcf30153")), file)
    assert (
        torch_guard.torch_change_problem(
            torch_guard.read_record(file), create_site_packages("2.13.0a0+gitcf30153")
        )
        is None
    )
    sentence = torch_guard.torch_change_problem(
        torch_guard.read_record(file),
        create_site_packages(**{"version": "2.13.0a0+gitcf30153", **after}),
        "c.txt",
    )
    assert sentence is not None and message in sentence
    assert sentence.startswith("torch was replaced: ") and "--constraint c.txt" in sentence


def test_changed_files_are_detected(create_site_packages, tmp_path):
    folder = create_site_packages()
    before = describe.describe_folder(folder)
    with (folder / "torch" / "lib" / "libc10.so").open("ab") as file:
        file.write(b"more")
    assert "files of torch were changed" in (torch_guard.torch_change_problem(before, folder) or "")


def test_the_commands_of_the_torch_guard(tmp_path, capsys):
    file, constraints = tmp_path / "torch.json", tmp_path / "constraints.txt"
    assert cli.main(["torch", "record", str(file), "--constraints", str(constraints)]) == 0
    assert cli.main(["torch", "check", str(file)]) == 0
    assert constraints.read_text().startswith("torch==")
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, "version": "2.0.0"}))
    capsys.readouterr()
    assert cli.main(["torch", "check", str(file)]) == 1
    assert "torch was replaced" in capsys.readouterr().out
    for text in ("{}", "[]", "no json", json.dumps({**data, "kind": "mine"})):
        file.write_text(text)
        assert cli.main(["torch", "check", str(file)]) == 2


def test_an_interpreter_that_does_not_run_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="cannot report its torch"):
        describe.describe_environment(str(tmp_path / "python"))


def test_the_digest_depends_only_on_the_files_of_the_wheel() -> None:
    def digest(*lines: str) -> str | None:
        return describe.digest_of_record("\n".join(lines))

    own = ("torch/_C.so,sha256=abc,12", "torch/version.py,sha256=def,3")
    here = (
        "../../bin/torchrun,sha256=xyz,4",
        "torch/__pycache__/version.cpython-311.pyc,,",
        "torch-2.dist-info/INSTALLER,,",
    )
    assert digest(*own) == digest(*reversed(own), *here) is not None
    assert digest("torch/_C.so,sha256=other,12", own[1]) != digest(*own)
    assert digest() is None
