"""Faults of kernels: an interposer in C++ stands before the kernel of each overload."""

from __future__ import annotations

from tools.mutation import operators, points
from tools.mutation.injectors.injector import Counts, Observed, Planter
from tools.mutation.interposer import Interposer
from tools.mutation.mutant import Fault, description, scalar_types


class Kernels(Planter):
    """Plants faults of the kernels under a dispatch key."""

    computes = True

    def __init__(self, key: str, extension: Interposer) -> None:
        self._names = points.places(key)
        self.faults = [
            fault
            for place in self._names
            for fault in operators.faults_of(place, points.schema(place), random=points.is_random(place))
        ]
        self._interposer = extension
        self._dtypes = scalar_types()
        self._index = {place: index for index, place in enumerate(self._names)}
        #: By place, the number of its first fault; one more at the end.
        self._first: list[int] = []
        extension.install(key, self._names)

    @property
    def places(self) -> list[str]:
        """The overloads; each has a fault."""
        return self._names

    def observe(self, on: bool) -> None:
        """Begin or end looking for conditions of all faults."""
        if on and not self._first:
            self._observe_all()
        self._interposer.observe(on)

    def take_observed(self) -> Observed:
        """Return what calls met."""
        met: list[tuple[int, int]] = []
        calls: list[tuple[int, int, int]] = []
        for place, fault, dtype in self._interposer.take_met():
            question = fault - (self._first[place + 1] - self._first[place])
            if question >= 0:
                calls.append((place, question, dtype))
            else:
                met.append((self._first[place] + fault, dtype))
        return Observed(met, calls)

    def arm(self, fault: Fault) -> None:
        """Plant a fault before its kernel."""
        self._interposer.activate(
            self._index[fault.place], description(operators.interposed(fault), self._dtypes)
        )

    def disarm(self) -> Counts:
        """Remove the planted fault."""
        return Counts(*self._interposer.deactivate())

    def _observe_all(self) -> None:
        by_place: dict[str, list[Fault]] = {place: [] for place in self._names}
        for fault in self.faults:
            by_place[fault.place].append(fault)
        number = 0
        for index, faults in enumerate(by_place.values()):
            self._first.append(number)
            described = [description(operators.interposed(fault), self._dtypes) for fault in faults]
            asked = [("called", 0, question, -1) for question in range(len(operators.QUESTIONS))]
            self._interposer.set_observed(index, described + asked)
            number += len(faults)
        self._first.append(number)
