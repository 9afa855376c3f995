"""Public import path of `settings.bridge_config`."""

from __future__ import annotations

from typing import Any

from .settings import bridge_config as _bridge_config


def __getattr__(name: str) -> Any:
    return getattr(_bridge_config, name)


def __dir__() -> list[str]:
    return dir(_bridge_config)
