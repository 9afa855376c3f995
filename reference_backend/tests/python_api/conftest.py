"""Load the backend, and define a fixture. If the backend's C++ core is missing, every test fails here."""

from __future__ import annotations

from pathlib import Path

import habana_frameworks.torch  # noqa: F401  registers the device
import pytest


@pytest.fixture
def entry_point_arguments(tmp_path: Path) -> dict[str, object]:
    """Return arguments for ``run_python`` with which torch finds the backend's entry point uninstalled."""
    metadata = tmp_path / "front_test-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: front-test\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text(
        "[torch.backends]\ndevice_backend = habana_frameworks.autoload:__autoload\n"
    )
    return {"path": (tmp_path,), "TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}
