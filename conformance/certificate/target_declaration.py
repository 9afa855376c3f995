"""Find the results of a level that a target does not claim, because its target file excludes them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from conformance.errors import UsageError
from conformance.model.id_patterns import matches
from conformance.model.records import Leg
from conformance.model.vocabulary import ANY_DTYPE
from conformance.plan.levels.manifest import RequiredResult


@dataclasses.dataclass(frozen=True)
class TargetDeclaration:
    """The declarations of a target file, as recorded in the results of its run."""

    dtypes: frozenset[str]
    capabilities: Mapping[str, bool]
    unsupported: Mapping[str, str]
    operators: Mapping[str, frozenset[str]]
    hooks: frozenset[str]

    @functools.cached_property
    def patterns(self) -> tuple[str, ...]:
        """The result patterns that the target declares unsupported, in the order of the file."""
        return tuple(self.unsupported)

    @staticmethod
    def from_leg(leg: Leg) -> TargetDeclaration:
        """Return the declarations recorded in a leg.

        Raise UsageError if the leg has no record of the declarations.
        """
        declared = leg["target"].get("declared")
        if declared is None:
            raise UsageError(
                f"leg {leg['name']} has no record of the declarations of its target: an earlier version of "
                "the suite wrote it; run the suite again"
            )
        return TargetDeclaration(
            frozenset(declared["dtypes"]),
            declared["capabilities"],
            declared["unsupported"],
            {name: frozenset(dtypes) for name, dtypes in declared["operators"].items()},
            frozenset(declared["hooks"]),
        )

    def reason_not_claimed(self, entry: RequiredResult) -> str | None:
        """Return the reason why the target does not claim a result, or None if it claims the result.

        The target always claims the results in the floor of a level, which a level requires of every target.
        """
        if entry.floor:
            return None
        for name in entry.capabilities:
            if not self.capabilities.get(name, True):
                return f"capability {name}"
        for name in entry.hooks:
            if name not in self.hooks:
                return f"hook {name}"
        dtype = entry.id.dtype
        if dtype != ANY_DTYPE and dtype not in self.dtypes:
            return f"dtype {dtype}"
        subject = entry.id.case.subject
        if entry.kind == "operator" and subject in self.operators:
            listed = self.operators[subject]
            if (dtype == ANY_DTYPE and not listed) or (dtype != ANY_DTYPE and dtype not in listed):
                return f"operators.{subject}"
        pattern = _first_matching_pattern(self.patterns, str(entry.id))
        return None if pattern is None else f"unsupported {pattern}"


@functools.lru_cache(maxsize=1 << 17)
def _first_matching_pattern(patterns: tuple[str, ...], name: str) -> str | None:
    """Return the first pattern that matches a result id, or None.

    The result is cached, because most legs of a results file have the same patterns.
    """
    return next((pattern for pattern in patterns if matches(pattern, name)), None)
