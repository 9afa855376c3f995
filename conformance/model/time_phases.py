"""The phases into which a time profile divides the time of a result."""

from __future__ import annotations

#: Phases in execution order, each with its description.
PHASES = {
    "samples": "making inputs and copying them to the device",
    "oracle": "computing reference values on the CPU",
    "device": "calls on the device, and waiting for it",
    "compare": "comparing results with reference values",
    "property": "the property's own code, and the functions that it calls directly",
    "harness": "the worker's own code around a property",
}
