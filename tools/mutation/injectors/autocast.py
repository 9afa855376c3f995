"""Faults of autocast: the kernels under the dispatch key of a device's autocast, interposed in C++."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from conformance.samples.dispatched_kernels import base_name
from tools.mutation import points
from tools.mutation.injectors.injector import NO_DTYPE, Counts, Observed, Planter
from tools.mutation.interposer import Interposer
from tools.mutation.mutant import Fault

KINDS: Mapping[str, str] = {
    "cast-missing": "arguments keep their dtypes",
    "cast-to-other-dtype": "arguments are cast to the other dtype of 16 bits",
    "cast-stale": "a weight is cast as it was when it was first cast",
}
_PREFIX = "autocast::"
#: Keys of torch's own kernels for every device.
_COMPOSITE = (
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)


def castable(key: str, lists: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the overloads of which a wrong cast can show: the device runs them, and their arguments do not
    only take each other's widest dtype, as torch's own promotion gives them without a cast.
    """
    others = {name for word, names in lists.items() if word != "promote" for name in names}
    promoted = set(lists.get("promote", ())) - others
    return [
        name
        for name in points.places(f"Autocast{key}")
        if base_name(name) not in promoted and _runs(name, key)
    ]


def _runs(name: str, key: str) -> bool:
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return has(name, key) or any(has(name, one) for one in _COMPOSITE)


class Autocast(Planter):
    """Plants faults of the kernels that cast; a place is ``autocast::`` before an overload's name."""

    computes = True

    def __init__(
        self, device: str, key: str, extension: Interposer, lists: Mapping[str, Sequence[str]]
    ) -> None:
        names = castable(key, lists)
        whole = lists.get("float32", ())
        self.faults = [
            Fault(_PREFIX + name, kind)
            for name in names
            for kind in KINDS
            # What is declared for float32 is cast to no dtype of 16 bits.
            if kind != "cast-to-other-dtype" or base_name(name) not in whole
        ]
        self._numbers = {(fault.place, fault.kind): number for number, fault in enumerate(self.faults)}
        self._names = names
        self._interposer = extension
        extension.install_autocast(f"Autocast{key}", torch.device(device).type, names)

    def observe(self, on: bool) -> None:
        """Begin or end looking for conditions; each call runs more than once meanwhile."""
        self._interposer.observe_autocast(on)

    def take_observed(self) -> Observed:
        """Return what calls met."""
        seen = self._interposer.take_met_of_autocast()
        return Observed(
            [
                (self._numbers[_PREFIX + self._names[place], kind], NO_DTYPE)
                for place, kind in seen
                if (_PREFIX + self._names[place], kind) in self._numbers
            ],
            [(place, 0, NO_DTYPE) for place, kind in seen if not kind],
        )

    def arm(self, fault: Fault) -> None:
        """Plant a fault before a kernel that casts."""
        self._interposer.activate_autocast(self._names.index(fault.place.removeprefix(_PREFIX)), fault.kind)

    def disarm(self) -> Counts:
        """Remove the planted fault."""
        return Counts(*self._interposer.deactivate_autocast())
