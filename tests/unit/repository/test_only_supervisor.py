"""Only ``process_control`` supervises processes. Other modules may only run a short command and wait until it
ends.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.support import ROOT

SUPERVISES = re.compile(r"\b(Popen|killpg|setsid|get_context|signal\.SIG(KILL|USR1)|waitpid|os\.fork)\b")
#: Folder of the checks. Checks may start processes, because they run in a supervised worker.
CHECKS = ROOT / "conformance" / "properties"
SUPERVISOR = ROOT / "conformance" / "process_control"


def test_no_other_module_supervises_processes() -> None:
    files = [*(ROOT / "conformance").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]
    others = [file for file in files if not {CHECKS, SUPERVISOR} & set(file.parents)]
    assert len(others) > 300
    lines_by_file = {
        str(file.relative_to(ROOT)): lines
        for file in others
        if (lines := lines_that_supervise_processes(file))
    }
    assert not lines_by_file


def lines_that_supervise_processes(file: Path) -> list[str]:
    lines = [line.partition("#")[0] for line in file.read_text().splitlines()]
    return [line for line in lines if SUPERVISES.search(line) and "hasattr(os" not in line]
