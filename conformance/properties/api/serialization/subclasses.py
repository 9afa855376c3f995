"""Saving subclasses of tensors."""

from __future__ import annotations

import copy
import io
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


def again(thing: Any, **options: Any) -> Any:
    """Save a value and load it again, with classes of all kinds allowed by default."""
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    buffer.seek(0)
    return torch.load(buffer, **{"weights_only": False, **options})


class Plain(torch.Tensor):
    """A subclass with nothing of its own."""


class Noted(torch.Tensor):
    """A subclass that writes its own state."""

    note: Any
    reloaded: Any

    def __getstate__(self) -> Any:
        return ("noted", getattr(self, "note", None))

    def __setstate__(self, state: Any) -> None:
        word, self.note = state
        self.reloaded = word


@behaviour("serialization", sees=("value",))
def saved_subclasses(lab: Lab) -> None:
    """Subclasses are saved, copied and loaded as their own type, with attributes, and by their own state if
    they define one.
    """
    base = lab.floats(2, 3) * 1
    plain: Any = base.clone().as_subclass(Plain)
    plain.note = "kept"
    for name, copied in (("loaded", again(plain)), ("copied flat", copy.copy(plain))):
        lab.holds(f"{name}: its class", type(copied) is Plain)
        lab.same(f"{name}: values", copied.as_subclass(torch.Tensor))
        if name != "copied flat":
            lab.expect(f"{name}: an attribute", copied.note, "kept")
    noted = base.clone().as_subclass(Noted)
    noted.note = 5
    copied = again(noted)
    lab.expect("its own state", [type(copied) is Noted, copied.note, copied.reloaded], [True, 5, "noted"])
    lab.same("its values", copied.as_subclass(torch.Tensor))
    empty = again(torch.empty(0, device=lab.device).as_subclass(Plain))
    lab.expect("of nothing", [type(empty) is Plain, list(empty.shape)], [True, [0]])
    lab.raises("unless the class is allowed", lambda: again(plain, weights_only=True), Exception)
    with torch.serialization.safe_globals([Plain]):
        lab.same("then it is loaded", again(plain, weights_only=True).as_subclass(torch.Tensor))
    for requires_grad in (True, False):
        leaf = torch.empty(2, device="meta", requires_grad=requires_grad)
        lab.expect(f"a copy on meta, {requires_grad}", copy.deepcopy(leaf).requires_grad, requires_grad)
    pair = again([torch.empty(0, device=lab.device), torch.empty(0, dtype=torch.int16, device=lab.device)])
    lab.same("empty ones of two dtypes", [part.dtype for part in pair])
    lab.silent("saving a module", lambda: again(torch.nn.Linear(2, 2, device=lab.device)))
