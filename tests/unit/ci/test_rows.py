"""The rows that other-backends.yml measures: each is a backend of the registry, with a target that fits it."""

from __future__ import annotations

import re

from conformance.site import registry
from conformance.site.registry import FOLDER
from conformance.target import file as target_file
from tests.support import ROOT

_ROW = re.compile(r"- backend: (\S+)\n +target: (\S+)\n +builds: \"([^\"]+)\"")


def test_every_row_has_a_backend_and_a_target_that_fits() -> None:
    rows = _ROW.findall((ROOT / ".github" / "workflows" / "other-backends.yml").read_text())
    assert len(rows) >= 11
    known = registry.load(FOLDER)
    for backend, target, _ in rows:
        place = str(ROOT / target) if "/" in target else target
        file = target_file.load(place)
        assert file.device.partition(":")[0] == known[backend].device, backend
        assert file.simulated == known[backend].simulated, backend
        assert known[backend].stand_in == (backend not in ("cpu", "torch-openreg")), backend


def test_the_stand_ins_have_rows() -> None:
    """Every target that is different but correct, the profiles and the tiny device, but for one."""
    text = (ROOT / ".github" / "workflows" / "other-backends.yml").read_text()
    different = {path.name for path in (ROOT / "tests" / "different").glob("*.toml")}
    # Without mkldnn two results of torch's are expected to fail and do not: a run of it is red.
    for name in different - {"no-mkldnn.toml"} | {"hpu-gaudi2", "hpu-gaudi3", "tests/vendor/tiny.toml"}:
        assert name in text, name
