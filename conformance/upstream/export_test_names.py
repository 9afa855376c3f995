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


def class_for_device(owner: str, device: str) -> str:
    """The class that the framework makes of a test class for a device."""
    return f"{owner}{device.upper() if device in BUILT_IN else 'PRIVATEUSE1'}"


def test_names_of(matched: MatchedDeviation, device: str, databases: Databases) -> list[str]:
    """The tests of an entry; a module may have two, in training and in evaluation."""
    entry = matched.subject.replace(".", "_")
    dtype = "" if matched.dtype is None else f"_{matched.dtype}"
    parts = MODES if databases.modules.get(matched.subject) else ("",)
    owner = class_for_device(matched.test.owner, device)
    return [f"{owner}.{matched.test.name}_{entry}{part}_{device}{dtype}" for part in parts]


def test_list(exported: Export, databases: Databases, source: str) -> str:
    """The list: a test a line, and after it what is expected of it and why."""
    lines = [
        f"# Known deviations of device {exported.device} on torch {exported.torch}, from the run {source}."
    ]
    lines.append("# Written by `conformance export`: TestClass.test_entry_device_dtype  # decision: reason")
    for matched in exported.matched:
        decision = "skip" if matched.deviation.ends_process else "expectedFailure"
        for name in test_names_of(matched, exported.device, databases):
            lines.append(f"{name}  # {decision}: {matched.deviation.reason}")
    return "\n".join(lines) + "\n" + export_overrides.not_exported_comment(exported.not_exported)
