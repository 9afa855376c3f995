"""Check that ``torch.save``, ``torch.load`` and ``copy`` preserve tensor subclasses."""

from __future__ import annotations

import copy
import io
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


def save_and_load(value: Any, **options: Any) -> Any:
    """Save a value to a buffer and return the value that ``torch.load`` reads from it. ``weights_only`` is
    False by default.
    """
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **{"weights_only": False, **options})


class PlainSubclass(torch.Tensor):
    """A tensor subclass that does not define its own pickled state."""


class SubclassWithCustomState(torch.Tensor):
    """A subclass that defines its own pickled state."""

    note: Any
    reloaded: Any

    def __getstate__(self) -> Any:
        return ("noted", getattr(self, "note", None))

    def __setstate__(self, state: Any) -> None:
        marker, self.note = state
        self.reloaded = marker


@behaviour(
    "serialization",
    must_detect=("value",),
    basis="consistency",
    ground="The loaded or copied tensor must agree with the original in class, attributes and values",
)
def saved_subclasses(lab: Lab) -> None:
    """A tensor subclass is saved, copied and loaded with its type and attributes. If the subclass defines
    ``__getstate__`` and ``__setstate__``, they are used.
    """
    base = lab.floats(2, 3) * 1
    plain_subclass: Any = base.clone().as_subclass(PlainSubclass)
    plain_subclass.note = "kept"
    for name, copied in (
        ("loaded", save_and_load(plain_subclass)),
        ("copied flat", copy.copy(plain_subclass)),
    ):
        lab.holds(f"{name}: the class is preserved", type(copied) is PlainSubclass)
        lab.same(f"{name}: values", copied.as_subclass(torch.Tensor))
        if name != "copied flat":
            lab.expect(f"{name}: an attribute", copied.note, "kept")
    noted = base.clone().as_subclass(SubclassWithCustomState)
    noted.note = 5
    copied = save_and_load(noted)
    with lab.documented():
        lab.expect(
            "its own state",
            [type(copied) is SubclassWithCustomState, copied.note, copied.reloaded],
            [True, 5, "noted"],
        )
    lab.same("its values", copied.as_subclass(torch.Tensor))
    empty = save_and_load(torch.empty(0, device=lab.device).as_subclass(PlainSubclass))
    lab.expect("of nothing", [type(empty) is PlainSubclass, list(empty.shape)], [True, [0]])
    with lab.documented():
        lab.raises(
            "a subclass that is not allowed, with weights_only",
            lambda: save_and_load(plain_subclass, weights_only=True),
            Exception,
        )
    with torch.serialization.safe_globals([PlainSubclass]), lab.documented():
        lab.same(
            "then it is loaded",
            save_and_load(plain_subclass, weights_only=True).as_subclass(torch.Tensor),
        )
    for requires_grad in (True, False):
        leaf = torch.empty(2, device="meta", requires_grad=requires_grad)
        lab.expect(
            f"a copied meta tensor, requires_grad={requires_grad}",
            copy.deepcopy(leaf).requires_grad,
            requires_grad,
        )
    pair = save_and_load(
        [torch.empty(0, device=lab.device), torch.empty(0, dtype=torch.int16, device=lab.device)]
    )
    lab.same("empty tensors of two dtypes", [part.dtype for part in pair])
    lab.silent("saving a module", lambda: save_and_load(torch.nn.Linear(2, 2, device=lab.device)))
