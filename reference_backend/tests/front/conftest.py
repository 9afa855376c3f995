"""Loads the backend; without its core every test fails here."""

from __future__ import annotations

import habana_frameworks.torch  # noqa: F401  registers the device
