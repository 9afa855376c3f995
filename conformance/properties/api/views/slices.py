"""Check writes through views that ``select`` returns, and indices out of range."""

from __future__ import annotations

import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "views", dtypes=ALL, level="core", must_detect=("value", "alias"), page="generated/torch.select.html"
)
def write_through_select(lab: Lab) -> None:
    """A write into a selected row changes the tensor from which the row was selected."""
    base = lab.integers(3, 4)
    row = base.select(0, 1)
    lab.same("row", row, strides=True)
    lab.shares("base and row", base, row)
    row.fill_(1)
    lab.same("base", base)


@behaviour(
    "views",
    must_detect=("error", "message"),
    page="generated/torch.select.html",
    ground="select equals indexing, and an index out of range is an IndexError",
)
def select_out_of_range(lab: Lab) -> None:
    """``select`` with an index out of range raises an IndexError that contains the index. A dimension
    out of range raises an IndexError that mentions the dimension.
    """
    base = lab.integers(3, 4)
    lab.raises("select(0, 3)", lambda: base.select(0, 3), IndexError, match="3", type_is_documented=True)
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises("select(2, 0)", lambda: torch.select(base, 2, 0), IndexError, match="(?i)dim")
