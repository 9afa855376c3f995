"""Test libhlml.so with the unmodified `habana-pyhlml`, and the symbolic link by which pyhlml finds it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

PROGRAM = """
import inspect, json, sys, warnings
warnings.simplefilter("ignore")
import torch, habana_frameworks.torch
from pyhlml import main as hlml, hlml_types
try:
    hlml.hlmlInitWithFlags(1)
except Exception as error:
    print(type(error).__name__)
hlml.hlmlInit()
x = torch.ones(4 << 20, device="hpu")  # 16 MiB
device = hlml.hlmlDeviceGetHandleByIndex(3)
used = hlml.hlmlDeviceGetMemoryInfo(device).used
print(used >> 20, hlml.hlmlDeviceGetModuleID(device), hlml.hlmlDeviceGetCount())
print(torch.hpu.memory_usage(), torch.hpu.utilization() >= 0)
# Call every function of hlml except hlmlShutdown and hlmlEventSetFree. `argument_values` has a value for each
# parameter name except "device".
events = hlml.hlmlEventSetCreate()
zeros = "sensor_type threshold_type error_type counter_type location port scope perf_policy cause flags"
argument_values = dict.fromkeys(zeros.split(), 0)
argument_values |= dict(cpu_set_size=2, node_set_size=1, row_count=2, event_types=3, st=events)
argument_values |= dict(timeout=20, limit=9, index=3)
argument_values["uuid"] = hlml.hlmlDeviceGetUUID(device).decode()
argument_values["pci_addr"] = hlml.hlmlDeviceGetPCIInfo(device).bus_id.decode()
outcomes = {}
for name, function in sorted(vars(hlml).items()):
    ends = name in ("hlmlShutdown", "hlmlEventSetFree")
    if name.startswith("hlml") and not ends and getattr(function, "__module__", "") == hlml.__name__:
        needed = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        arguments = [device if name == "device" else argument_values[name] for name in needed]
        try:
            function(*arguments)
            outcomes[name] = "ok"
        except hlml.HLMLError as error:
            outcomes[name] = type(error).__name__
        except Exception as error:
            outcomes[name] = repr(error)
print(json.dumps({name: outcome for name, outcome in outcomes.items() if outcome != "ok"}, sort_keys=True))
print(len(outcomes))
hlml.hlmlEventSetFree(events)
try:
    hlml.hlmlDeviceGetHandleByIndex(8)
except Exception as error:
    print(type(error).__name__)
"""


def test_pyhlml_works_unmodified(hlml_path: Path, run_python: Any, tmp_path: Path) -> None:
    pytest.importorskip("pyhlml", reason="habana-pyhlml is not installed.")
    done = run_python(PROGRAM, HPU_REFERENCE_STATE_DIR=str(tmp_path / "state"), HLS_MODULE_ID="3")
    assert done.returncode == 0, done.stderr
    flags, memory, usage, failed, count, index = done.stdout.splitlines()
    assert memory == "16 3 8"
    assert usage.endswith("True")
    assert "INVALID" in flags.upper()
    assert "INVALID" in index.upper()
    assert int(count) > 60
    assert set(json.loads(failed)) == {
        "hlmlDeviceNicGetStatistics",
        "hlmlDeviceSetPowerManagementLimit",
        "hlmlEventSetWait",  # no event arrives before the timeout
    }


def test_link_is_created_and_removed(smi: Any, hlml_path: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from hpu_reference_tools import link\n"
        "sys.exit(link.main(sys.argv[1:2], Path(sys.argv[2])))"
    )

    def run_link_command(action: str, link: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, action, str(link)],
            env={"PYTHONPATH": str(hlml_path.parents[1])},
            capture_output=True,
            text=True,
        )

    link = tmp_path / "habanalabs" / "libhlml.so"
    for _ in range(2):  # a second call changes nothing
        assert run_link_command("link", link).returncode == 0
        assert link.resolve() == hlml_path.resolve()
    for _ in range(2):
        assert run_link_command("unlink", link).returncode == 0
        assert not link.exists()
    link.write_text("another's")
    for action in ("link", "unlink"):
        done = run_link_command(action, link)
        assert done.returncode == 1
        assert "was not created by this program" in done.stderr
    assert link.read_text() == "another's"
    assert run_link_command("path", link).stdout.strip() == str(hlml_path)
    assert run_link_command("link", Path("/proc/nowhere/libhlml.so")).stderr.startswith(
        "hpu-reference-hlml: "
    )


def test_memory_usage_requires_pyhlml(run_python: Any) -> None:
    code = (
        "import sys; sys.modules['pyhlml'] = None\nimport torch, habana_frameworks.torch\n"
        "try:\n    torch.hpu.memory_usage()\nexcept ImportError as error:\n    print(error)"
    )
    assert "Install habana-pyhlml" in run_python(code).stdout
    assert torch.hpu.is_available()
