"""Loads the compiled core; refuses what would crash later: another torch or ABI, the bridge for hardware."""

from __future__ import annotations

import glob
import importlib
import os
from collections.abc import Iterable
from types import ModuleType

from .internal.mode import is_fork_like

_BRIDGE_LIBRARY = os.path.join("torch", "lib", "libhabana_pytorch*_plugin*.so")


def refuse_real_bridge(package_paths: Iterable[str]) -> None:
    """Refuse to share `habana_frameworks` with the bridge that drives hardware.

    Both register the same dispatch key, so a process can hold only one of them.

    Args:
        package_paths: the folders that make up the namespace package `habana_frameworks`.

    Raises:
        ImportError: one of them holds the plugin library of the bridge.
    """
    for folder in package_paths:
        found = glob.glob(os.path.join(glob.escape(folder), _BRIDGE_LIBRARY))
        if found:
            raise ImportError(
                f"the Intel Gaudi bridge is installed ({found[0]}) and this software device would replace "
                "it: use an environment without the bridge, or uninstall this backend"
            )


def check_build(
    built_version: str,
    built_cxx11_abi: bool,
    built_for_fork: bool,
    torch_version: str,
    torch_cxx11_abi: bool,
) -> None:
    """Compare what the core was compiled for with the torch that runs, before the core is opened.

    Major and minor version, C++11 ABI and fork marker must agree; the C++ interface of torch changes with
    each.

    Raises:
        ImportError: they do not; the message names both and what to install.
    """
    built = _describe(built_version, built_cxx11_abi, built_for_fork)
    running = _describe(torch_version, torch_cxx11_abi, is_fork_like(torch_version))
    if built != running:
        raise ImportError(
            f"this build of the hpu backend is for {built} and torch {torch_version} is running ({running}): "
            f"install the build of the backend for {running}, or torch=={_release(built_version)}.* of the "
            "kind it was built for"
        )


def load_core(torch: ModuleType) -> ModuleType:
    """Open the extension module `habana_frameworks.torch._C`, which registers the device with torch.

    Raises:
        ImportError: the core was not built, was built for another torch, or cannot be opened.
    """
    package = __package__
    try:
        info = importlib.import_module(f"{package}._build_info")
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{package} has no compiled core in {os.path.dirname(__file__)}: install a wheel of the hpu "
            "backend, or build it from its source tree"
        ) from error
    check_build(
        info.TORCH_VERSION,
        bool(info.CXX11_ABI),
        bool(info.FORK),
        str(torch.__version__),
        bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True)),
    )
    try:
        return importlib.import_module(f"{package}._C")
    except ImportError as error:
        raise ImportError(
            f"the compiled core of {package} cannot be opened ({error}): build or install it again for torch "
            f"{torch.__version__}"
        ) from error


def _release(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])


def _describe(version: str, cxx11_abi: bool, fork: bool) -> str:
    kind = "fork-like" if fork else "public"
    return f"{kind} torch {_release(version)} with C++11 ABI {int(cxx11_abi)}"
