"""``tools.generate.release`` reports how a new release of torch differs, and which decisions a person must
make.
"""

from __future__ import annotations

import pytest
import torch

from conformance.builds.describe import Build
from conformance.errors import UsageError
from conformance.plan.levels.manifest import Manifest, ManifestGroup, ManifestProperty
from tools.generate import release
from tools.generate.__main__ import main

BUILD = Build("2.99.0", None, "public", (), "1", "", "0" * 64, None, None)


def test_a_new_release_names_its_open_decisions() -> None:
    build, *others = release.decision_lines((2, 99), (2, 98), BUILD)
    assert BUILD.record is not None and BUILD.record in build and "known_builds.toml" in build
    text = "\n".join(others)
    assert "--target cpu" in text and "no kernel table for torch 2.99" in text
    assert all(name in text for name in release.CI_FILES)
    assert "expire" not in text  # no expectation of the suite expires with torch 2.99


def test_expectations_that_expire_with_the_release_are_listed() -> None:
    (line,) = [line for line in release.decision_lines((2, 17), (2, 15), BUILD) if "expire" in line]
    assert "docs/torch-bugs.md" in line and line.count("(") > release.SHOWN


def test_the_difference_is_that_to_the_nearest_earlier_release() -> None:
    groups = (
        ManifestGroup((2, 6), None, ("float32",), ("add",)),
        ManifestGroup((2, 6), (2, 99), ("float32",), ("gone",)),
        ManifestGroup((2, 99), None, ("float32", "int64"), ("new",)),
    )
    statement = ManifestProperty("operator", "value", "core", ("eager",), (), (), groups)
    manifest = Manifest(((2, 6), (2, 13), (2, 99)), (statement,), ())
    (line,) = release.difference_lines(manifest, (2, 99))
    assert line == "eager: 3 results; compared with torch 2.13, 2 (of new) added and 1 (of gone) removed"
    assert not list(release.difference_lines(manifest, (2, 13)))


def test_a_release_that_is_not_installed_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UsageError, match=r"torch .* is installed, so release 2\.99 cannot be added"):
        release.main(["2.99"])
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert main(["release", "2.99"]) == 2
    assert torch.__version__ in capsys.readouterr().err
