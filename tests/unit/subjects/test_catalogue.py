"""An extra module (option ``--extra``) that cannot be imported is a usage error."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.errors import UsageError
from conformance.subjects import catalogue


def test_an_extra_module_that_raises_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "raises_at_import.py").write_text("raise ValueError('no such thing')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = "extra module 'raises_at_import' cannot be imported: ValueError: no such thing"
    with pytest.raises(UsageError, match=message):
        catalogue.load_extra(["raises_at_import"])
