"""The class of what plants faults: it arms one, removes it, and counts the calls that met and felt it."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Sequence

from tools.mutation.mutant import Fault

#: The number of no dtype.
NO_DTYPE = -1


@dataclasses.dataclass(frozen=True)
class Counts:
    """Calls that met the condition of a planted fault, and calls that it changed."""

    met: int
    effects: int


@dataclasses.dataclass(frozen=True)
class Observed:
    """Conditions that the calls of a result met: faults by index with a dtype's number.

    ``calls`` are triples of a place's index, a question of :data:`tools.mutation.operators.QUESTIONS` by index
    and a dtype's number.
    """

    met: Sequence[tuple[int, int]] = ()
    calls: Sequence[tuple[int, int, int]] = ()


class Planter(abc.ABC):
    """Plants the faults of one family, one at a time.

    Without an armed fault, and while it does not observe, the device behaves as if there were no planter.
    """

    #: Every fault that it can plant; those of a place follow each other.
    faults: Sequence[Fault] = ()
    #: True if it computes on the device while it observes, for which the host waits.
    computes = False

    @property
    def places(self) -> list[str]:
        """The places of the faults, in order."""
        return list(dict.fromkeys(fault.place for fault in self.faults))

    @functools.cached_property
    def possible(self) -> frozenset[Fault]:
        """The faults as a set."""
        return frozenset(self.faults)

    @abc.abstractmethod
    def observe(self, on: bool) -> None:
        """Begin or end looking which faults' conditions calls meet."""

    @abc.abstractmethod
    def take_observed(self) -> Observed:
        """Return what calls met since the last call of this."""

    @abc.abstractmethod
    def arm(self, fault: Fault) -> None:
        """Plant a fault; none is planted."""

    @abc.abstractmethod
    def disarm(self) -> Counts:
        """Remove the planted fault."""
