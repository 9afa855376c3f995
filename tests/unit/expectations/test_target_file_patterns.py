"""Patterns of ``[unsupported]`` and tables of ``[operators]``: what speaks of nothing is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.errors import UsageError
from conformance.expectations import target_file_patterns
from conformance.plan.plan import Case, Plan
from conformance.target import file as target_file

HEAD = 'schema = 1\nname = "mine"\ndevice = "cpu"\nmodes = ["eager"]\ndtypes = ["float32", "int64"]\n'


def check(folder: Path, text: str, own: Callable[[], Plan]) -> None:
    (folder / "mine.toml").write_text(HEAD + text)
    target_file_patterns.check_patterns(target_file.load(str(folder / "mine.toml")), own)


def never() -> Plan:
    raise AssertionError("the manifest is enough")


def patterns(*lines: str) -> str:
    return "[unsupported]\n" + "".join(f'"{line}" = "why"\n' for line in lines)


@pytest.mark.parametrize(
    "pattern",
    [
        "value/add@float32",
        "*/fft.*@float16",  # a dtype that the target does not declare
        "value/bitwise_and@float32",  # one that the CPU may have with another torch
        "*/*@float8_e8m0fnu",  # one that no result has so far
        "compile_value/add@*",  # a mode that the target does not have
        "stream_order/Stream@any",  # what the CPU is not asked
    ],
)
def test_whatever_the_suite_has_anywhere_may_be_declared(tmp_path: Path, pattern: str) -> None:
    check(tmp_path, patterns(pattern), never)


def test_operators_and_modules_may_have_dtypes_of_their_own(tmp_path: Path) -> None:
    check(tmp_path, '[operators.cumsum]\ndtypes = []\n[operators."nn.ReLU"]\ndtypes = ["float32"]\n', never)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (patterns("value/ad@float32"), "unsupported 'value/ad@float32' matches no result (did you mean "),
        (patterns("*/fft.*@float17"), "'*/fft.*@float17' matches no result (did you mean */fft.*@float16"),
        (patterns("valu/add@*"), "(did you mean value/add@*"),
        (patterns("value/add@any"), "unsupported 'value/add@any' matches no result"),
        (patterns("stream_order/Stream@float32"), "(did you mean stream_order/Stream@any"),
        ("[operators.cumsun]\ndtypes = []\n", "operators.cumsun is not the name of a checked operator (did you "),
        ("[operators.Stream]\ndtypes = []\n", "operators.Stream is not the name of a checked operator"),
    ],
)  # fmt: skip
def test_what_speaks_of_nothing_is_refused_with_names_near_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setattr(target_file_patterns, "_full_plan", lambda: Plan([]))
    with pytest.raises(UsageError) as error:
        check(tmp_path, text, lambda: Plan([]))
    assert message in str(error.value)
    assert str(error.value).startswith(f"target file {tmp_path}/mine.toml: ")
    assert "; remove or rename them, or name the module that has them with --extra" in str(error.value)


def test_what_the_manifest_lacks_may_be_in_the_plan_of_the_target_or_of_this_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = patterns("acts/mine@int8") + '[operators.newer]\ndtypes = ["int8"]\n'
    own = Plan([Case("sham", "acts", "mine", ("float32",))])
    monkeypatch.setattr(
        target_file_patterns, "_full_plan", lambda: Plan([Case("operator", "p", "newer", ("int8",))])
    )
    check(tmp_path, text, lambda: own)
    with pytest.raises(UsageError, match="unsupported 'acts/mine@int8' matches no result"):
        check(tmp_path, text, lambda: Plan([]))


def test_all_mistakes_are_named_up_to_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_file_patterns, "_full_plan", lambda: Plan([]))
    monkeypatch.setattr(target_file_patterns, "_manifest_plan", lambda: Plan([]))
    with pytest.raises(UsageError) as error:
        check(tmp_path, patterns(*(f"a/b{number}@c" for number in range(12))), lambda: Plan([]))
    assert str(error.value).count("matches no result") == 10
    assert "; and 2 more; remove or rename them" in str(error.value)
