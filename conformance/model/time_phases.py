"""Phases of a result: what a worker's time goes into."""

from __future__ import annotations

#: In the order in which a result goes through them, each with its description.
PHASES = {
    "samples": "making inputs and copying them to the device",
    "oracle": "computing what is due, on the CPU",
    "device": "calls on the device, and waiting for it",
    "compare": "comparing what came with what is due",
    "property": "the property's own code, and what it calls directly",
    "harness": "what the worker does around a property",
}
