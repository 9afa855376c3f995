"""Faults of child processes and of queues between processes, on the device side."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from conformance.behaviours.lab import Lab
from conformance.properties.api.multiprocessing import sharing
from tests.injected_faults.api.faults import NAMED


def _fault_of_patch(name: str, replacement: Any) -> Callable[[Lab], Any]:
    @contextlib.contextmanager
    def patch_for_lab(lab: Lab) -> Iterator[None]:
        with mock.patch.object(sharing, name, replacement):
            yield

    return patch_for_lab


#: The forked child process sends no reply, as if it had crashed.
NAMED["host-memory-is-shared"] = _fault_of_patch("_reply_of_forked_child", lambda work: b"")
NAMED["forks-beside-a-device"] = _fault_of_patch("_reply_of_forked_child", lambda work: b"")
#: A queue copies tensors instead of sharing their memory.
NAMED["tensors-through-queues"] = _fault_of_patch(
    "_pickle_round_trip", lambda value: __import__("copy").deepcopy(value)
)
