"""Valid build specifications become arguments of pip. Any other text is rejected before it reaches pip."""

from __future__ import annotations

import json

import pytest

from conformance import cli
from conformance.builds import build_spec
from conformance.errors import UsageError

DIGEST = "a" * 64


@pytest.mark.parametrize(
    ("spec", "variant", "requirement", "options"),
    [
        ("2.6.0", None, "torch==2.6.0", ()),
        ("2.13", None, "torch==2.13.*", ()),
        ("newest", None, "torch", ()),
        ("2.13.0", "cpu", "torch==2.13.0", ("--index-url", "https://download.pytorch.org/whl/cpu")),
        ("nightly", None, "torch", ("--pre", "--index-url", "https://download.pytorch.org/whl/nightly/cpu")),
        (
            f"https://vendor.example/torch-2.6.0a0+git1-cp311-cp311-linux_x86_64.whl#sha256={DIGEST}",
            None,
            f"torch @ https://vendor.example/torch-2.6.0a0+git1-cp311-cp311-linux_x86_64.whl#sha256={DIGEST}",
            (),
        ),
    ],
)
def test_valid_specifications_become_pip_arguments(spec, variant, requirement, options):
    build = build_spec.parse_build_spec(spec, variant)
    assert (build.requirement, build.options) == (requirement, options)


@pytest.mark.parametrize(
    "spec",
    [
        *(
            "",
            "latest",
            "2.6.0; rm -rf /",
            "2.6.0 --index-url=http://x",
            "--extra-index-url",
            "$(id)",
            "2.6.0\nx",
        ),
        *("none.whl", "http://vendor.example/torch-1.whl#sha256=" + DIGEST, "file:///torch-1.whl"),
        *("https://vendor.example/torch-1.whl", "https://vendor.example/torch-1.whl#sha256=abc"),
        *(
            f"https://vendor.example/other-1.whl#sha256={DIGEST}",
            f"https://u:p@v.example/torch-1.whl#sha256={DIGEST}",
        ),
        f"https://vendor.example/torch-1;x.whl#sha256={DIGEST}",
    ],
)
def test_other_specifications_are_rejected(spec):
    with pytest.raises(UsageError):
        build_spec.parse_build_spec(spec)


@pytest.mark.parametrize("variant", ["", "cpu/../x", "cu", "https://x", "cpu --pre"])
def test_variants_are_a_closed_list(variant):
    with pytest.raises(UsageError, match="is not one of cpu"):
        build_spec.parse_build_spec("2.6.0", variant)


def test_a_wheel_is_described_with_its_digest(tmp_path, capsys):
    wheel = tmp_path / "torch-2.13.0-py3-none-any.whl"
    wheel.write_bytes(b"bytes")
    assert cli.main(["torch", "resolve", str(wheel), "--download", str(tmp_path)]) == 0
    described = json.loads(capsys.readouterr().out)
    assert (described["kind"], described["wheel"]) == ("wheel", wheel.name)
    assert described["sha256"] == "277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9"


def test_a_build_that_pip_cannot_find_is_a_usage_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(UsageError, match=r"torch build '2\.6\.0' is not available"):
        build_spec.download_wheel(build_spec.parse_build_spec("2.6.0"), tmp_path)
