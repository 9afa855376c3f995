"""A pattern of ``[unsupported]`` in a target file that matches no result is an error, and so is a table of
``[operators]`` for an unknown operator.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.errors import UsageError
from conformance.expectations import target_file_patterns
from conformance.plan.plan import Case, Plan
from conformance.target import file as target_file

HEAD = 'schema = 1\nname = "mine"\ndevice = "cpu"\nmodes = ["eager"]\ndtypes = ["float32", "int64"]\n'


def check_target_file(folder: Path, text: str, own: Callable[[], Plan]) -> None:
    (folder / "mine.toml").write_text(HEAD + text)
    target_file_patterns.check_target_file_patterns(target_file.load(str(folder / "mine.toml")), own)


def fail_if_called() -> Plan:
    raise AssertionError("the check computed a plan, although the manifest suffices")


def unsupported_patterns(*lines: str) -> str:
    return "[unsupported]\n" + "".join(f'"{line}" = "why"\n' for line in lines)


@pytest.mark.parametrize(
    "pattern",
    [
        "value/add@float32",
        "*/fft.*@float16",  # a dtype that the target does not declare
        "value/bitwise_and@float32",  # a dtype that the CPU may have with a different torch
        "*/*@float8_e8m0fnu",  # a dtype that no result uses yet
        "compile_value/add@*",  # a mode that the target does not have
        "stream_order/Stream@any",  # a result that is not planned for the CPU
    ],
)
def test_a_pattern_may_match_any_result_of_the_suite(tmp_path: Path, pattern: str) -> None:
    check_target_file(tmp_path, unsupported_patterns(pattern), fail_if_called)


def test_operators_and_modules_may_have_dtypes_of_their_own(tmp_path: Path) -> None:
    check_target_file(
        tmp_path,
        '[operators.cumsum]\ndtypes = []\n[operators."nn.ReLU"]\ndtypes = ["float32"]\n',
        fail_if_called,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (unsupported_patterns("value/ad@float32"),
         "unsupported 'value/ad@float32' matches no result (did you mean "),
        (unsupported_patterns("*/fft.*@float17"),
         "'*/fft.*@float17' matches no result (did you mean */fft.*@float16"),
        (unsupported_patterns("valu/add@*"), "(did you mean value/add@*"),
        (unsupported_patterns("value/add@any"), "unsupported 'value/add@any' matches no result"),
        (unsupported_patterns("stream_order/Stream@float32"), "(did you mean stream_order/Stream@any"),
        ("[operators.cumsun]\ndtypes = []\n", "operators.cumsun is not the name of a checked operator (did "),
        ("[operators.Stream]\ndtypes = []\n", "operators.Stream is not the name of a checked operator"),
    ],
)  # fmt: skip
def test_a_pattern_without_results_is_rejected_with_similar_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setattr(target_file_patterns, "_full_plan", lambda: Plan([]))
    with pytest.raises(UsageError) as error:
        check_target_file(tmp_path, text, lambda: Plan([]))
    assert message in str(error.value)
    assert str(error.value).startswith(f"target file {tmp_path}/mine.toml: ")
    assert "; remove or rename them, or name the module that has them with --extra" in str(error.value)


def test_a_pattern_may_match_the_plan_of_the_target_or_of_this_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = unsupported_patterns("acts/mine@int8") + '[operators.newer]\ndtypes = ["int8"]\n'
    own = Plan([Case("artificial", "acts", "mine", ("float32",))])
    monkeypatch.setattr(
        target_file_patterns, "_full_plan", lambda: Plan([Case("operator", "p", "newer", ("int8",))])
    )
    check_target_file(tmp_path, text, lambda: own)
    with pytest.raises(UsageError, match="unsupported 'acts/mine@int8' matches no result"):
        check_target_file(tmp_path, text, lambda: Plan([]))


def test_the_number_of_reported_mistakes_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_file_patterns, "_full_plan", lambda: Plan([]))
    monkeypatch.setattr(target_file_patterns, "_manifest_plan", lambda: Plan([]))
    with pytest.raises(UsageError) as error:
        check_target_file(
            tmp_path, unsupported_patterns(*(f"a/b{number}@c" for number in range(12))), lambda: Plan([])
        )
    assert str(error.value).count("matches no result") == 10
    assert "; and 2 more; remove or rename them" in str(error.value)
