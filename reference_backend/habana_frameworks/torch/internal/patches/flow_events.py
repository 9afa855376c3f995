"""Add arrows from operators to device rows in Chrome traces if ``PT_TB_ENABLE_FLOW_EVENTS`` is set.

torch creates these arrows from driver events on the host. This device has no driver, but the host row and the
device row of an operator contain the same ``External id``. The arrows are added after torch wrote the file.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from habana_frameworks.torch.internal.settings import bridge_config

from torch.autograd import profiler

from .wrap_function import replace_function

_CATEGORY = "ac2g"  # torch's category of arrows from the CPU to a device


def patch_chrome_trace_export() -> None:
    """Add arrows to exported traces if the flag ``PT_TB_ENABLE_FLOW_EVENTS`` is set."""
    if bridge_config.value_of("PT_TB_ENABLE_FLOW_EVENTS"):
        replace_function(profiler.profile, "export_chrome_trace", _wrap_export_chrome_trace)


def _wrap_export_chrome_trace(original: Callable[..., Any]) -> Callable[..., Any]:
    def export_chrome_trace(self: Any, path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Any:
        result = original(self, path, *args, **kwargs)
        unfinished = Path(f"{os.fspath(path)}.part")
        try:
            trace = json.loads(Path(path).read_text())
            trace["traceEvents"] += list(flow_events_of_arrows(trace["traceEvents"]))
            unfinished.write_text(json.dumps(trace))
            unfinished.replace(path)
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
        ) as error:  # torch may write a file that is not valid JSON
            unfinished.unlink(missing_ok=True)
            warnings.warn(f"no arrows were added to {path}: {error}", RuntimeWarning, stacklevel=2)
        return result

    return export_chrome_trace


def flow_events_of_arrows(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the two flow events (start and end) of the arrow from an operator to each of its device events.

    Args:
        events: events of a Chrome trace.
    """
    hosts = {
        event["args"]["External id"]: event
        for event in events
        if event.get("cat") == "cpu_op" and "External id" in event.get("args", {})
    }
    rows = (event for event in events if event.get("cat") == "hpu_op" and event.get("ph") == "X")
    for number, row in enumerate(rows, 1):
        host = hosts.get(row.get("args", {}).get("External id"))
        if host is not None:
            common = {"cat": _CATEGORY, "name": _CATEGORY, "id": number}
            yield {"ph": "s", **common, **{key: host[key] for key in ("pid", "tid", "ts")}}
            yield {"ph": "f", "bp": "e", **common, **{key: row[key] for key in ("pid", "tid", "ts")}}
