"""Inject mutants of kernels: a C++ interposer runs in front of each overload's kernel."""

from __future__ import annotations

from tools.mutation import operators, parameters, points, reported_faults
from tools.mutation.injectors.injector import Counts, Injector, Observed
from tools.mutation.interposer import Interposer
from tools.mutation.mutant import Mutant, interposer_description, scalar_types


class KernelInjector(Injector):
    """Injects mutants into the kernels of a dispatch key."""

    uses_device = True

    def __init__(self, key: str, extension: Interposer) -> None:
        self._names = points.mutation_points(key)
        reported = reported_faults.mutants_of_kernels()
        # The mutants of one point must be adjacent, also the mutants that reproduce reported faults.
        self.mutants = [
            mutant
            for point in self._names
            for mutant in dict.fromkeys(
                [
                    *operators.mutants_of_overload(
                        point, points.schema_of(point), random=points.is_random(point)
                    ),
                    *(m for m in reported if m.point == point and m.operator in parameters.RANGES),
                ]
            )
        ]
        self._interposer = extension
        self._dtypes = scalar_types()
        self._index = {point: index for index, point in enumerate(self._names)}
        #: The index of the first mutant of each point. The last entry is the number of all mutants.
        self._first: list[int] = []
        extension.install(key, self._names)

    @property
    def mutation_points(self) -> list[str]:
        """The overloads with a kernel at the dispatch key. Each overload has at least one mutant."""
        return self._names

    def observe(self, on: bool) -> None:
        """Start or stop recording triggered mutants."""
        if on and not self._first:
            self._observe_all()
        self._interposer.observe(on)

    def take_observed(self) -> Observed:
        """Return the mutants that were triggered since this method was last called."""
        triggered: list[tuple[int, int]] = []
        calls: list[tuple[int, int, int]] = []
        for point_index, mutant_index, dtype in self._interposer.take_triggered():
            call_kind = mutant_index - (self._first[point_index + 1] - self._first[point_index])
            if call_kind >= 0:
                calls.append((point_index, call_kind, dtype))
            else:
                triggered.append((self._first[point_index] + mutant_index, dtype))
        return Observed(triggered, calls)

    def enable(self, mutant: Mutant) -> None:
        """Enable a mutant of a kernel."""
        self._interposer.activate(
            self._index[mutant.point],
            interposer_description(operators.to_interposed_mutant(mutant), self._dtypes),
        )

    def disable(self) -> Counts:
        """Disable the mutant and return its counts."""
        return Counts(*self._interposer.deactivate())

    def _observe_all(self) -> None:
        mutants_by_point: dict[str, list[Mutant]] = {point: [] for point in self._names}
        for mutant in self.mutants:
            mutants_by_point[mutant.point].append(mutant)
        number = 0
        for index, mutants in enumerate(mutants_by_point.values()):
            self._first.append(number)
            described = [
                interposer_description(operators.to_interposed_mutant(mutant), self._dtypes)
                for mutant in mutants
            ]
            call_kinds = [("called", 0, call_kind, -1) for call_kind in range(len(operators.CALL_KINDS))]
            self._interposer.set_observed(index, described + call_kinds)
            number += len(mutants)
        self._first.append(number)
