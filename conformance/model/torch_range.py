"""Ranges of torch versions in which an expectation applies. Only major and minor version numbers count."""

from __future__ import annotations

import dataclasses
import functools
import operator
import re

Minor = tuple[int, int]

_TERM = re.compile(r"(>=|<|==)\s*(\d{1,4})\.(\d{1,4})")
_HOLDS = {">=": operator.ge, "<": operator.lt, "==": operator.eq}


def major_and_minor(version: str) -> Minor:
    """Return major and minor of a version: (2, 13) for ``2.13.0a0+git12``."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ValueError(f"version {version!r} does not begin with a major and a minor number, like 2.13")
    return int(match.group(1)), int(match.group(2))


@dataclasses.dataclass(frozen=True)
class TorchScope:
    """A range of torch versions, such as ``>=2.10, <2.14``: a version must satisfy all comparisons."""

    terms: tuple[tuple[str, Minor], ...]

    @staticmethod
    @functools.lru_cache(maxsize=1024)
    def parse(text: str) -> TorchScope:
        """Parse a range. If it is invalid, raise ValueError with examples of valid ranges."""
        terms = []
        for part in text.split(","):
            match = _TERM.fullmatch(part.strip())
            if match is None:
                raise ValueError(
                    f"torch {text!r} is not a range of versions; write '<2.14', '>=2.10, <2.14' or '==2.13'"
                )
            terms.append((match.group(1), (int(match.group(2)), int(match.group(3)))))
        scope = TorchScope(tuple(terms))
        points = {value for _, (a, b) in terms for value in ((a, b), (a, b + 1), (a, b - 1))}
        if not any(scope._contains_minor(point) for point in points):
            raise ValueError(f"the torch range {text!r} contains no version; correct its comparisons")
        return scope

    def contains_version(self, version: str) -> bool:
        """Return True if a version of torch is in the range."""
        return self._contains_minor(major_and_minor(version))

    def _contains_minor(self, point: Minor) -> bool:
        return all(_HOLDS[comparison](point, value) for comparison, value in self.terms)

    def __str__(self) -> str:
        return ", ".join(f"{comparison}{a}.{b}" for comparison, (a, b) in self.terms)


def separating_scope(inside: set[Minor], outside: set[Minor]) -> TorchScope | None:
    """Return the widest range with one comparison that contains all versions ``inside`` and no version
    ``outside``; None if no such range exists.
    """
    if not inside or not outside:
        return None
    if max(inside) < min(outside):
        return TorchScope((("<", min(outside)),))
    if min(inside) > max(outside):
        return TorchScope(((">=", min(inside)),))
    return None
