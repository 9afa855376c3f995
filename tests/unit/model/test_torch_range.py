"""``model.torch_range`` parses ranges of torch versions, and finds a range that separates two sets of
versions.
"""

from __future__ import annotations

import pytest

from conformance.model.torch_range import TorchScope, separating_scope


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ("<2.14", ["2.13.1+cpu", "1.9.0"], ["2.14.0a0+git1", "3.0.0"]),
        (">=2.10, <2.14", ["2.10.0", "2.13.9"], ["2.9.1", "2.14.0"]),
        ("==2.13", ["2.13.0", "2.13.1+hpu"], ["2.12.9", "2.1.0"]),
    ],
)
def test_versions_inside_and_outside_a_range(scope: str, inside: list[str], outside: list[str]) -> None:
    torch_range = TorchScope.parse(scope)
    assert all(map(torch_range.contains_version, inside)) and not any(
        map(torch_range.contains_version, outside)
    )
    assert str(torch_range) == scope


@pytest.mark.parametrize(
    "text", ["2.13", "<2", ">2.13", "", "<2.14,", ">=2.14, <2.10", "==2.1, ==2.2", "soon"]
)
def test_invalid_ranges_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a range of versions|contains no version"):
        TorchScope.parse(text)


def test_the_range_that_separates_failing_versions() -> None:
    assert str(separating_scope({(2, 6), (2, 9)}, {(2, 13)})) == "<2.13"
    assert str(separating_scope({(2, 13)}, {(2, 6), (2, 9)})) == ">=2.13"
    assert separating_scope({(2, 9)}, {(2, 6), (2, 13)}) is None
    assert separating_scope({(2, 9)}, {(2, 9)}) is None
