"""The modules (cards) of the simulated node, and the module that this process owns.

A node has eight modules. ``HABANA_VISIBLE_MODULES`` limits the modules that the process may use.
``HLS_MODULE_ID`` is the id of the process's own module. Tensors on this module have the device index 0.
"""

from __future__ import annotations

import os

NODE_SIZE = 8


def visible_module_ids() -> tuple[int, ...]:
    """Return the ids of the modules that this process may use, in the listed order. The default is all eight.

    Raises:
        ValueError: ``HABANA_VISIBLE_MODULES`` is not ``all`` or a comma-separated list of integers from 0 to
            7.
    """
    text = os.environ.get("HABANA_VISIBLE_MODULES", "")
    if text in ("", "all"):
        return tuple(range(NODE_SIZE))
    try:
        modules = tuple(dict.fromkeys(int(item) for item in text.split(",")))
    except ValueError:
        modules = ()
    if not modules or not set(modules) <= set(range(NODE_SIZE)):
        raise ValueError(
            f"HABANA_VISIBLE_MODULES={text!r} is not a list of modules. Use integers from 0 to "
            f"{NODE_SIZE - 1}, separated by commas."
        )
    return modules


def own_module_id() -> int | None:
    """Return the id in ``HLS_MODULE_ID``, or None if the variable is unset, empty or negative.

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
            f"HLS_MODULE_ID={text!r} is not a module. Use an integer from 0 to {NODE_SIZE - 1}."
        ) from None
    return module if module >= 0 else None


def is_own_device_index(index: int) -> bool:
    """Return whether an index denotes the device of this process.

    Four indices denote this device: 0, the id in ``HLS_MODULE_ID``, the position of this id in
    ``HABANA_VISIBLE_MODULES``, and ``LOCAL_RANK``.
    """
    if index <= 0:
        return index == 0
    module, modules = own_module_id(), visible_module_ids()
    return (
        index == module
        or (index < len(modules) and modules[index] == module)
        or str(index) == os.environ.get("LOCAL_RANK")
    )
