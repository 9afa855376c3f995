"""Names of upstream's tests as its runners print them: ``TestCommonHPU.test_out_add_hpu_float32``.

A class is named after its device in capitals, except that a device of one's own (PrivateUse1) keeps that name
there; a test is named by method, entry, device and dtype, with the dots of an entry as underscores.
"""

from __future__ import annotations

from conformance.upstream import export_overrides
from conformance.upstream.exported_deviations import Export, MatchedDeviation
from conformance.upstream.matching_tests import Databases

#: Devices for which upstream's framework has a class of its own.
BUILT_IN = ("cpu", "cuda", "hpu", "lazy", "mps", "xpu")
#: The part that upstream adds to the name of a module that it tests in training and evaluation.
MODES = ("_train_mode", "_eval_mode")


def of_class(owner: str, device: str) -> str:
    """The class that the framework makes of a test class for a device."""
    return f"{owner}{device.upper() if device in BUILT_IN else 'PRIVATEUSE1'}"


def of_tests(placed: MatchedDeviation, device: str, known: Databases) -> list[str]:
    """The tests of an entry; a module may have two, in training and in evaluation."""
    entry = placed.subject.replace(".", "_")
    dtype = "" if placed.dtype is None else f"_{placed.dtype}"
    parts = MODES if known.modules.get(placed.subject) else ("",)
    owner = of_class(placed.test.owner, device)
    return [f"{owner}.{placed.test.name}_{entry}{part}_{device}{dtype}" for part in parts]


def text(found: Export, known: Databases, source: str) -> str:
    """The list: a test a line, and after it what is expected of it and why."""
    lines = [f"# Known deviations of device {found.device} on torch {found.torch}, from the run {source}."]
    lines.append("# Written by `conformance export`: TestClass.test_entry_device_dtype  # decision: reason")
    for placed in found.placed:
        decision = "skip" if placed.deviation.ends else "expectedFailure"
        for name in of_tests(placed, found.device, known):
            lines.append(f"{name}  # {decision}: {placed.deviation.reason}")
    return "\n".join(lines) + "\n" + export_overrides.left_out(found.left)
