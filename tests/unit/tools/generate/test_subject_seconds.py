"""``tools.generate.subject_seconds`` computes the table of seconds per subject from results."""

from __future__ import annotations

import json
from pathlib import Path

from conformance.plan import shards
from tests.support.sample_legs import leg
from tools.generate import subject_seconds


def test_the_table_is_made_from_results(tmp_path: Path) -> None:
    rows = [("p/a@d", 3.0), ("p/a@e", 5.1), ("q/a@d", 0.0), ("p/b@d", 0.001), ("p/gone@d", 9.0)]
    eager_leg = leg(
        "eager", results=[{"id": name, "verdict": "pass", "seconds": spent} for name, spent in rows]
    )
    kinds = {("p", "a"): "operator", ("q", "a"): "operator", ("p", "b"): "module"}
    table = subject_seconds.make_table([eager_leg, eager_leg], kinds)
    assert table == {"schema": 1, "modes": {"eager": {"8": ["operator/a"], "0.0625": ["module/b"]}}}
    path = tmp_path / "seconds.json"
    path.write_text(json.dumps(table))
    assert shards.recorded_seconds(path) == {"eager": {"operator/a": 8.0, "module/b": 0.0625}}
    for took in (0.07, 0.5, 1.3, 44.0, 1000.0):
        assert abs(subject_seconds.round_seconds(took) / took - 1) <= 0.2


def test_a_long_area_is_split_into_its_properties() -> None:
    """The properties of a long API area get separate seconds. Otherwise the longest area would determine the
    time of a run with many shards.
    """
    kinds = {(name, area): "api" for area in ("long", "short") for name in ("p", "q")} | {
        ("p", "op"): "operator",
        ("q", "op"): "operator",
    }
    took = {case: 0.5 if case[1] == "short" else 16.0 for case in kinds}
    rows = [{"id": f"{p}/{s}@d", "verdict": "pass", "seconds": spent} for (p, s), spent in took.items()]
    assert subject_seconds.make_table([leg("eager", results=rows)], kinds)["modes"]["eager"] == {
        "32": ["operator/op"],
        "16": ["api/long/p", "api/long/q"],
        "1": ["api/short"],
    }
