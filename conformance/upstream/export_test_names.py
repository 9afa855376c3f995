"""Export deviations as names of upstream tests, such as ``TestCommonHPU.test_out_add_hpu_float32``.

The name of a test class ends with the device type in capitals, or with ``PRIVATEUSE1`` for an out-of-tree
device. The name of a test consists of method, database entry (with underscores instead of dots), device and
dtype.
"""

from __future__ import annotations

from conformance.upstream import export_overrides
from conformance.upstream.exported_deviations import LegExport, MatchedDeviation
from conformance.upstream.matching_tests import Databases

#: The devices for which upstream's test framework has a separate test base class.
BUILT_IN = ("cpu", "cuda", "hpu", "lazy", "mps", "xpu")
#: The suffixes that upstream adds to the name of a module that is tested in training and evaluation mode.
MODES = ("_train_mode", "_eval_mode")


def class_for_device(owner: str, device: str) -> str:
    """Return the name of the class that upstream's framework generates from a test class for a device."""
    return f"{owner}{device.upper() if device in BUILT_IN else 'PRIVATEUSE1'}"


def test_names_of(matched: MatchedDeviation, device: str, databases: Databases) -> list[str]:
    """Return the test names of a deviation.

    A module can have two tests: in training and in evaluation mode.
    """
    entry = matched.subject.replace(".", "_")
    dtype = "" if matched.dtype is None else f"_{matched.dtype}"
    parts = MODES if databases.modules.get(matched.subject) else ("",)
    owner = class_for_device(matched.test.owner, device)
    return [f"{owner}.{matched.test.name}_{entry}{part}_{device}{dtype}" for part in parts]


def test_list(exported: LegExport, databases: Databases, source: str) -> str:
    """Return the list as text: one test per line, followed by its decision and the reason."""
    lines = [
        f"# Known deviations of device {exported.device} on torch {exported.torch}, from the run {source}."
    ]
    lines.append("# Written by `conformance export`: TestClass.test_entry_device_dtype  # decision: reason")
    for matched in exported.matched:
        decision = "skip" if matched.deviation.ends_process else "expectedFailure"
        for name in test_names_of(matched, exported.device, databases):
            lines.append(f"{name}  # {decision}: {matched.deviation.reason}")
    return "\n".join(lines) + "\n" + export_overrides.not_exported_comment(exported.not_exported)
