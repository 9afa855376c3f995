"""Read the report files of the sanitizers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

#: Addresses, thread numbers and process numbers, which differ between reports of one defect.
_VARYING = re.compile(r"0x[0-9a-f]+|\b[TM]\d+\b|==\d+==|tid=\d+|\(pid=\d+\)")


def count_report_summaries(reports: Path) -> Counter[str]:
    """Count the reports in a folder by their summary."""
    counts: Counter[str] = Counter()
    for path in reports.iterdir():
        lines = path.read_text(errors="replace").splitlines()
        summary_lines = [line for line in lines if line.startswith("SUMMARY:") or "runtime error:" in line]
        counts.update(_VARYING.sub("…", line) for line in summary_lines or lines[:1])
    return counts
