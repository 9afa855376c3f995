"""Each row of the workflow other-backends.yml names a backend of the registry, and a target with the same
device as the backend.
"""

from __future__ import annotations

import re

from conformance.site import registry
from conformance.site.registry import FOLDER
from conformance.target import file as target_file
from tests.support import ROOT

_ROW = re.compile(r"- backend: (\S+)\n +target: (\S+)\n +builds: \"([^\"]+)\"")


def test_every_row_has_a_backend_and_a_target_of_the_same_device() -> None:
    rows = _ROW.findall((ROOT / ".github" / "workflows" / "other-backends.yml").read_text())
    assert len(rows) >= 11
    backends = registry.load(FOLDER)
    for backend, target, _ in rows:
        target_path = str(ROOT / target) if "/" in target else target
        file = target_file.load(target_path)
        assert file.device.partition(":")[0] == backends[backend].device, backend
        assert file.simulated == backends[backend].simulated, backend
        assert backends[backend].stand_in == (backend not in ("cpu", "torch-openreg")), backend


def test_the_conforming_variants_have_rows() -> None:
    """The workflow has a row for each conforming variant except no-mkldnn, and for the two Gaudi models and
    the tiny device.
    """
    text = (ROOT / ".github" / "workflows" / "other-backends.yml").read_text()
    variants = {path.name for path in (ROOT / "tests" / "conforming_variants").glob("*.toml")}
    assert "no-mkldnn.toml" in variants
    # Without mkldnn two failures that the target expects do not occur. A run of no-mkldnn therefore exits
    # with 1, so the workflow has no row for it.
    for name in variants - {"no-mkldnn.toml"} | {"hpu-gaudi2", "hpu-gaudi3", "tests/vendor/tiny.toml"}:
        assert name in text, name
