"""Faults of what traces: its results, the writes that it replays and what it says of sharing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from conformance.behaviours.lab import Lab
from conformance.properties.api.aot import functions
from tests.planted.api.faults import NAMED
from tests.planted.api.faults_control_flow import bent


@contextlib.contextmanager
def wrong_results(lab: Lab) -> Iterator[None]:
    """Traced functions give wrong results on the device's side."""
    traced: Callable[..., Any] = functions.traced
    functions.traced = lambda function, **options: bent(traced(function, **options))
    try:
        yield
    finally:
        functions.traced = traced


for name in ("aot-calls", "aot-returns-aliases", "aot-inputs-that-share", "aot-partitions-and-sizes"):
    NAMED[name] = wrong_results


@contextlib.contextmanager
def lost_writes(lab: Lab) -> Iterator[None]:
    """Traced functions write into copies of their inputs."""
    traced: Callable[..., Any] = functions.traced

    def change(function: Any, **options: Any) -> Any:
        made = traced(function, **options)
        return lambda *args: made(*(arg.clone() if hasattr(arg, "clone") else arg for arg in args))

    functions.traced = change
    try:
        yield
    finally:
        functions.traced = traced


NAMED["aot-writes-into-inputs"] = lost_writes
