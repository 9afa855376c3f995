"""The claims of a target: the results of a level less those that its own file excludes, with reasons."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from conformance.errors import UsageError
from conformance.model.id_patterns import matches
from conformance.model.records import Leg
from conformance.model.vocabulary import ANY_DTYPE
from conformance.plan.levels.manifest import Entry


@dataclasses.dataclass(frozen=True)
class Declaration:
    """The declarations of a target file, as the results of its run carry them."""

    dtypes: frozenset[str]
    capabilities: Mapping[str, bool]
    unsupported: Mapping[str, str]
    operators: Mapping[str, frozenset[str]]
    hooks: frozenset[str]

    @functools.cached_property
    def patterns(self) -> tuple[str, ...]:
        """The patterns that are declared unsupported, in order."""
        return tuple(self.unsupported)

    @staticmethod
    def of(leg: Leg) -> Declaration:
        """The declaration of a leg; UsageError if it carries none."""
        declared = leg["target"].get("declared")
        if declared is None:
            raise UsageError(
                f"leg {leg['name']} does not carry what its target declares, so an earlier version "
                "of the suite made it; run it again"
            )
        return Declaration(
            frozenset(declared["dtypes"]),
            declared["capabilities"],
            declared["unsupported"],
            {name: frozenset(dtypes) for name, dtypes in declared["operators"].items()},
            frozenset(declared["hooks"]),
        )

    def removes(self, entry: Entry) -> str | None:
        """The reason why the target does not claim a result, in words to group by; None if it claims it.

        Nothing removes what is in the floor of the level.
        """
        if entry.floor:
            return None
        for word in entry.capabilities:
            if not self.capabilities.get(word, True):
                return f"capability {word}"
        for word in entry.hooks:
            if word not in self.hooks:
                return f"hook {word}"
        dtype = entry.id.dtype
        if dtype != ANY_DTYPE and dtype not in self.dtypes:
            return f"dtype {dtype}"
        subject = entry.id.case.subject
        if entry.kind == "operator" and subject in self.operators:
            listed = self.operators[subject]
            if (dtype == ANY_DTYPE and not listed) or (dtype != ANY_DTYPE and dtype not in listed):
                return f"operators.{subject}"
        pattern = _first(self.patterns, str(entry.id))
        return None if pattern is None else f"unsupported {pattern}"


@functools.lru_cache(maxsize=1 << 17)
def _first(patterns: tuple[str, ...], name: str) -> str | None:
    """The first pattern that matches; the legs of a file mostly declare the same."""
    return next((pattern for pattern in patterns if matches(pattern, name)), None)
