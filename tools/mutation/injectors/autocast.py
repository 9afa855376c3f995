"""Inject mutants of autocast: C++ kernels interposed at the device's autocast dispatch key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from conformance.samples.dispatched_kernels import base_name
from tools.mutation import points
from tools.mutation.injectors.injector import NO_DTYPE, Counts, Injector, Observed
from tools.mutation.interposer import Interposer
from tools.mutation.mutant import Mutant

MUTATION_OPERATORS: Mapping[str, str] = {
    "cast-missing": "arguments keep their dtypes",
    "cast-to-other-dtype": "arguments are cast to the other 16-bit dtype",
    "cast-stale": "the first cast of a weight is reused after the weight has changed",
}
_PREFIX = "autocast::"
#: The dispatch keys at which torch registers kernels that work on every device.
_COMPOSITE = (
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)


def castable_overloads(key: str, lists: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the overloads whose results change if autocast casts their arguments.

    The device must have a kernel for the overload. Overloads in the ``promote`` list alone are excluded,
    because torch's type promotion gives the same result without a cast.
    """
    with_fixed_dtype = {
        name for list_name, names in lists.items() if list_name != "promote" for name in names
    }
    promoted = set(lists.get("promote", ())) - with_fixed_dtype
    return [
        name
        for name in points.mutation_points(f"Autocast{key}")
        if base_name(name) not in promoted and _device_has_kernel(name, key)
    ]


def _device_has_kernel(name: str, key: str) -> bool:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return has(name, key) or any(has(name, dispatch_key) for dispatch_key in _COMPOSITE)


class AutocastInjector(Injector):
    """Injects mutants into the autocast kernels. A point is ``autocast::`` and the overload's name."""

    uses_device = True

    def __init__(
        self, device: str, key: str, extension: Interposer, lists: Mapping[str, Sequence[str]]
    ) -> None:
        names = castable_overloads(key, lists)
        float32_operators = lists.get("float32", ())
        self.mutants = [
            Mutant(_PREFIX + name, operator)
            for name in names
            for operator in MUTATION_OPERATORS
            # Operators declared for float32 are not cast to a 16-bit dtype.
            if operator != "cast-to-other-dtype" or base_name(name) not in float32_operators
        ]
        self._numbers = {
            (mutant.point, mutant.operator): number for number, mutant in enumerate(self.mutants)
        }
        self._names = names
        self._interposer = extension
        extension.install_autocast(f"Autocast{key}", torch.device(device).type, names)

    def observe(self, on: bool) -> None:
        """Start or stop recording triggered mutants. While recording, each call runs more than once."""
        self._interposer.observe_autocast(on)

    def take_observed(self) -> Observed:
        """Return the mutants that were triggered since this method was last called."""
        observed_pairs = self._interposer.take_triggered_autocast_mutants()
        return Observed(
            [
                (self._numbers[_PREFIX + self._names[point_index], operator], NO_DTYPE)
                for point_index, operator in observed_pairs
                if (_PREFIX + self._names[point_index], operator) in self._numbers
            ],
            [(point_index, 0, NO_DTYPE) for point_index, operator in observed_pairs if not operator],
        )

    def enable(self, mutant: Mutant) -> None:
        """Enable a mutant of a casting kernel."""
        self._interposer.activate_autocast(
            self._names.index(mutant.point.removeprefix(_PREFIX)), mutant.operator
        )

    def disable(self) -> Counts:
        """Disable the mutant and return its counts."""
        return Counts(*self._interposer.deactivate_autocast())
