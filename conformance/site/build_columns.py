"""Builds of torch, the columns of the matrix."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from conformance.model.records import Leg


@dataclasses.dataclass(frozen=True)
class Build:
    """A build of torch: version, kind and measured ABI."""

    version: str
    kind: str
    abi: str

    @property
    def slug(self) -> str:
        """The name of the build in URLs."""
        text = f"{self.version}-{self.kind}-abi{self.abi}"
        return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-").lower()[:90]

    @staticmethod
    def from_leg(leg: Leg) -> Build:
        """Return the build of a leg."""
        # The results are untrusted: the value may have any type.
        facts: Mapping[str, object] = leg["facts"]
        stated = facts.get("torch")
        torch = stated if isinstance(stated, dict) else {}
        return Build.from_untrusted_values(leg["torch"], torch.get("kind"), torch.get("abi"))

    @staticmethod
    def from_untrusted_values(version: object, kind: object, abi: object) -> Build:
        """Return a build from untrusted values, which are cut to the width of a column."""
        return Build(str(version)[:60], str(kind or "unknown")[:20], str(abi or "unknown")[:10])


def release_numbers(version: str) -> tuple[int, ...]:
    """Return the first three numbers of a version, or fewer, by which builds are sorted."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
