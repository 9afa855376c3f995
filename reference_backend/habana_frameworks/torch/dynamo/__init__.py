"""Register the device with Dynamo. Importing this module does not import Dynamo."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from habana_frameworks.torch.internal.device_type import DEVICE_TYPE
from habana_frameworks.torch.internal.patches.import_hooks import run_after_import

#: Subpackages that ``__getattr__`` imports at first use, as torch does with some of its own modules.
_SUBPACKAGES = ("compile_backend", "debug_utils")


def __getattr__(name: str) -> ModuleType:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _hpu_backend(graph_module: Any, example_inputs: Any, **arguments: Any) -> Any:
    """Compile a Dynamo graph for ``torch.compile(backend="hpu_backend")``; see `backends.hpu_backend`."""
    from .compile_backend.backends import hpu_backend

    return hpu_backend(graph_module, example_inputs, **arguments)


#: Modules whose functions Dynamo must call and not trace, because the functions call the core and handle real
#: tensors or the state of a thread.
_NOT_TRACED = ("random", "initialization", "memory", "stream_state", "graphs.inference", "graphs.traced")


def _skip_when_tracing(trace_rules: ModuleType) -> None:
    for name in _NOT_TRACED:
        trace_rules.add(f"habana_frameworks.torch.hpu.{name}")


def _register_device(device_interface: ModuleType) -> None:
    from .device_interface import HpuInterface

    for name in (DEVICE_TYPE, f"{DEVICE_TYPE}:0"):
        device_interface.register_interface_for_device(name, HpuInterface)


def _register_backend(registry: ModuleType) -> None:
    registry.register_backend(_hpu_backend, name="hpu_backend")


run_after_import("torch._dynamo.trace_rules", _skip_when_tracing)
run_after_import("torch._dynamo.device_interface", _register_device)
run_after_import("torch._dynamo.backends.registry", _register_backend)
