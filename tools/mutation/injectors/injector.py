"""The base class of fault injectors: enable a mutant, disable it, and count triggered and altered calls."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Sequence

from tools.mutation.mutant import Mutant

#: The dtype number of a call without a tensor.
NO_DTYPE = -1


@dataclasses.dataclass(frozen=True)
class Counts:
    """The number of calls that triggered the mutant, and the number of calls that the mutant altered."""

    triggered: int
    altered: int


@dataclasses.dataclass(frozen=True)
class Observed:
    """The mutants that the calls of a result triggered: pairs of (mutant index, dtype number).

    ``calls`` holds triples of (point index, index in :data:`tools.mutation.operators.CALL_KINDS`, dtype
    number).
    """

    triggered: Sequence[tuple[int, int]] = ()
    calls: Sequence[tuple[int, int, int]] = ()


class Injector(abc.ABC):
    """Injects the mutants of one layer, one at a time.

    The device behaves as if there were no injector unless a mutant is enabled or the injector observes.
    """

    #: All mutants that the injector can inject. Mutants of one point are adjacent.
    mutants: Sequence[Mutant] = ()
    #: True if the injector computes on the device while it observes, so that the host waits for the device.
    uses_device = False

    @property
    def mutation_points(self) -> list[str]:
        """The mutation points of this injector, in the order of `mutants`."""
        return list(dict.fromkeys(mutant.point for mutant in self.mutants))

    @functools.cached_property
    def mutant_set(self) -> frozenset[Mutant]:
        """All mutants that the injector can inject, as a set."""
        return frozenset(self.mutants)

    @abc.abstractmethod
    def observe(self, on: bool) -> None:
        """Start or stop recording the mutants that calls trigger."""

    @abc.abstractmethod
    def take_observed(self) -> Observed:
        """Return the mutants that were triggered since this method was last called."""

    @abc.abstractmethod
    def enable(self, mutant: Mutant) -> None:
        """Enable a mutant. No other mutant may be enabled."""

    @abc.abstractmethod
    def disable(self) -> Counts:
        """Disable the mutant and return its counts."""
