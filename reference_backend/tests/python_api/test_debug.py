"""Test the debug functions: logs by name and level, ``_bridge_cleanup``, and the list of live allocations."""

from __future__ import annotations

import logging

import pytest
import torch
from habana_frameworks.torch import _C
from habana_frameworks.torch.internal import logs
from habana_frameworks.torch.utils import debug


def test_lines_of_a_program_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    allocated = torch.ones(1000, device="hpu")
    with caplog.at_level(logging.INFO, "habana_frameworks.torch.program"):
        debug._hb_print("here")
        debug._hg_print("made")
        debug._mem_log("after a step")
    assert caplog.messages[:2] == ["here", "graph: made"]
    assert int(caplog.messages[2].split()[-4]) >= allocated.nbytes


@pytest.mark.parametrize(("level", "number"), [(0, 5), ("debug", 10), ("OFF", 51), ("3", 30)])
def test_levels_have_numbers_and_names(level: int | str, number: int) -> None:
    assert debug.logger.get_log_level(level) == number


@pytest.mark.parametrize("level", [7, "loud", -1])
def test_invalid_level_raises(level: int | str) -> None:
    with pytest.raises(ValueError, match=r"is not a log level\. Use 0 to 6"):
        debug.logger.get_log_level(level)


def test_log_level_filters_lines() -> None:
    try:
        debug.logger.enable_logging("PT_COMPILE", "info")
        assert debug.logger.Logger("PT_COMPILE").is_enabled_for(logging.INFO)
        assert _C.is_logged("PT_COMPILE", 2) and not _C.is_logged("PT_COMPILE", 1)
        debug.logger.enable_logging("PT_COMPILE", 6)
        assert not debug.logger.Logger("PT_COMPILE").is_enabled_for(logging.CRITICAL)
        assert not _C.is_logged("PT_COMPILE", 5)
    finally:
        logs.start_log(_C)
        for name in logs._MODULES:
            logging.getLogger(name).setLevel(logging.NOTSET)


def test_cleanup_keeps_tensors_and_clears_caches() -> None:
    x = torch.ones(8, device="hpu") * 2
    debug._bridge_cleanup()
    assert debug._get_jit_cache_size() == 0
    assert x.tolist() == [2.0] * 8


def test_live_allocations_are_written_with_their_lines(tmp_path, monkeypatch):
    monkeypatch.setenv("HABANA_LOGS", str(tmp_path))
    debug._memstat_devmem_start_collect("before")
    allocated = [torch.empty(size, device="hpu") for size in (10, 1000)]
    path = debug._memstat_devmem_stop_collect("after")
    lines = path.read_text().splitlines()
    assert path == tmp_path / "habana_log.livealloc.log"
    assert lines[0].endswith("after")
    sizes = [int(line.split()[0]) for line in lines[1:] if " bytes at " in line]
    assert sizes == sorted(sizes, reverse=True)
    ours = [line for line in lines if f"{__file__}:" in line]
    assert len(ours) >= len(allocated)
