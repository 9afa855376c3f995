"""The fields of a result that a query can use, and their valid values."""

from __future__ import annotations

import builtins
import dataclasses

from conformance.model.verdicts import Kind, Placement, Verdict
from conformance.model.vocabulary import MODES

#: The query values for all verdicts that make a run exit with 1, and for all other verdicts.
UNEXPECTED, EXPECTED = "unexpected", "expected"

#: The keys of a query with their descriptions. ``query.js`` has the same keys.
KEYS: dict[str, str] = {
    "op": "name of the operator, module, area of behaviours or other subject",
    "family": "family of the operator, such as fft or nn conv, or area of the behaviour",
    "property": "name of the property",
    "dtype": "dtype, or any",
    "verdict": f"verdict; also {UNEXPECTED} and {EXPECTED}",
    "kind": "kind of a failure",
    "mode": "mode of the device",
    "placement": "placement of the operator, such as native or fallback",
    "target": "name of the target, or of the backend on the site",
    "torch": "version of torch",
    "id": "whole id of the result",
    "message": "part of a failure's message or of a note",
    "seconds": "seconds that the result took: a number after >, >=, < or <=",
}
#: Alternative names of keys.
ALIASES = {"subject": "op", "area": "family", "backend": "target"}
#: The valid values of the keys with a closed list of values.
CLOSED: dict[str, tuple[str, ...]] = {
    "verdict": (UNEXPECTED, EXPECTED, *(verdict.value for verdict in Verdict)),
    "kind": tuple(kind.value for kind in Kind),
    "mode": MODES,
    "placement": tuple(placement.value for placement in Placement),
}


@dataclasses.dataclass(frozen=True)
class ResultFields:
    """The fields of one result for queries.

    ``texts`` are the messages and notes of the result; ``seconds`` is the duration of the result.
    """

    op: str
    family: str
    property: str
    dtype: str
    verdict: str
    kinds: tuple[str, ...]
    mode: str
    placement: str
    target: str
    torch: str
    seconds: float
    texts: tuple[str, ...] = ()

    @builtins.property
    def id(self) -> str:
        """The result id, ``property/subject@dtype``."""
        return f"{self.property}/{self.op}@{self.dtype}"

    def values(self, key: str) -> tuple[str, ...]:
        """Return the values of a key that is compared by name. The values of a verdict include its group,
        ``expected`` or ``unexpected``.
        """
        if key == "kind":
            return self.kinds
        if key == "verdict":
            group = UNEXPECTED if Verdict(self.verdict).unexpected else EXPECTED
            return (self.verdict, group)
        return (str(getattr(self, key)),)
