"""The modules (cards) of the simulated node, and the one that this process owns.

A node has eight modules. ``HABANA_VISIBLE_MODULES`` limits which ones the process may choose from;
``HLS_MODULE_ID`` names its own module. The index of its tensors is 0, whichever module that is.
"""

from __future__ import annotations

import os

NODE_SIZE = 8


def visible_modules() -> tuple[int, ...]:
    """Ids of the modules that this process may use, in the order given; all eight by default.

    Raises:
        ValueError: ``HABANA_VISIBLE_MODULES`` is not ``all`` or a comma list of integers from 0 to 7.
    """
    text = os.environ.get("HABANA_VISIBLE_MODULES", "")
    if text in ("", "all"):
        return tuple(range(NODE_SIZE))
    try:
        modules = tuple(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError:
        modules = ()
    if not modules or not set(modules) <= set(range(NODE_SIZE)):
        raise ValueError(
            f"HABANA_VISIBLE_MODULES={text!r} is not a list of modules: use integers from 0 to "
            f"{NODE_SIZE - 1}, separated by commas"
        )
    return modules


def own_module() -> int | None:
    """Id in ``HLS_MODULE_ID``, or None if the variable is unset, empty or negative.

    Raises:
        ValueError: the variable is not an integer.
    """
    text = os.environ.get("HLS_MODULE_ID", "")
    if not text.strip():
        return None
    try:
        module = int(text)
    except ValueError:
        raise ValueError(
            f"HLS_MODULE_ID={text!r} is not a module: use an integer from 0 to {NODE_SIZE - 1}"
        ) from None
    return module if module >= 0 else None


def is_own_index(index: int) -> bool:
    """Say whether a device index means the device of this process: 0 always does, so does its module id."""
    return index == 0 or (index > 0 and index == own_module())
