"""Check views by selecting."""

from __future__ import annotations

import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab


@behaviour("views", dtypes=ALL, level="core", sees=("value", "alias"))
def write_through_select(lab: Lab) -> None:
    """A write into a selected row changes the tensor."""
    base = lab.integers(3, 4)
    row = base.select(0, 1)
    lab.same("row", row, strides=True)
    lab.shares("base and row", base, row)
    row.fill_(1)
    lab.same("base", base)


@behaviour("views", sees=("error", "message"))
def select_out_of_range(lab: Lab) -> None:
    """Selecting an index that does not exist raises an IndexError that names the index."""
    base = lab.integers(3, 4)
    lab.raises("select(0, 3)", lambda: base.select(0, 3), IndexError, match="3")
    lab.raises("select(2, 0)", lambda: torch.select(base, 2, 0), IndexError, match="(?i)dim")
