"""Loads the compiled core; refuses what would crash later: another torch or ABI, the bridge for hardware.

A source tree has one core beside this file. A wheel has several in ``_builds/KEY``, one for each release, ABI
and kind of torch; the loader takes the one that was built for the running torch. A fork-like torch whose
headers and libraries are those of a public one, as in a repacked wheel, takes the core of the public one: a
core must fit headers and libraries, and the version only names them.
"""

from __future__ import annotations

import glob
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable
from types import ModuleType

from .internal import torch_build
from .internal.settings.mode import is_fork_like

_BRIDGE_LIBRARY = os.path.join("torch", "lib", "libhabana_pytorch*_plugin*.so")


def refuse_real_bridge(package_paths: Iterable[str]) -> None:
    """Refuse to share `habana_frameworks` with the bridge that drives hardware.

    Both register the same dispatch key, so a process can have only one of them.

    Args:
        package_paths: the folders that make up the namespace package `habana_frameworks`.

    Raises:
        ImportError: one of them has the plugin library of the bridge.
    """
    for folder in package_paths:
        libraries = glob.glob(os.path.join(glob.escape(folder), _BRIDGE_LIBRARY))
        if libraries:
            raise ImportError(
                f"the Intel Gaudi bridge is installed ({libraries[0]}) and this software device would "
                "replace it: use an environment without the bridge, or uninstall this backend"
            )


def check_build(
    built_version: str,
    built_cxx11_abi: bool,
    built_for_fork: bool,
    torch_version: str,
    torch_cxx11_abi: bool,
) -> None:
    """Compare the torch that the core was compiled for with the running torch, before the core is opened.

    Major and minor version, C++11 ABI and fork marker must agree; the C++ interface of torch changes with
    each.

    Raises:
        ImportError: they differ; the message names both and what to install.
    """
    built = _describe(built_version, built_cxx11_abi, built_for_fork)
    running = _describe(torch_version, torch_cxx11_abi, is_fork_like(torch_version))
    if built != running:
        raise ImportError(
            f"this build of the hpu backend is for {built} and torch {torch_version} is running ({running}): "
            f"install the build of the backend for {running}, or torch=={_release(built_version)}.* of the "
            "kind it was built for"
        )


def refuse_other_accelerator(torch: ModuleType) -> None:
    """Refuse a torch that was built for another accelerator and allows no second one.

    Since 2.7 torch derives its accelerator from what it was built for, not from the hardware present. With a
    CUDA build that is cuda (seen on 2.7), or an error, "Cannot have both HPU and cuda", from every backward
    pass, even on the CPU (seen on 2.13 and 2.15). On 2.6 a CUDA build without a GPU serves hpu.

    Raises:
        ImportError: torch is such a build.
    """
    built_with = [name for name in ("cuda", "hip", "xpu") if getattr(torch.version, name, None)]
    release = tuple(int(part) for part in re.findall(r"\d+", str(torch.__version__))[:2])
    if built_with and release >= (2, 7):
        raise ImportError(
            f"torch {torch.__version__} was built with {built_with[0]} and allows no hpu beside it: install "
            "a CPU build (pip install torch --index-url https://download.pytorch.org/whl/cpu)"
        )


def load_core(torch: ModuleType) -> ModuleType:
    """Open the extension module `habana_frameworks.torch._C`, which registers the device with torch.

    Raises:
        ImportError: no core fits this torch, or the core cannot be opened.
    """
    package = str(__package__)
    refuse_other_accelerator(torch)
    place = choose(_builds(package), torch)
    try:
        if place == package:
            return importlib.import_module(f"{package}._C")
        return _open(f"{place}._C", f"{package}._C")
    except ImportError as error:
        raise ImportError(
            f"the compiled core of {package} cannot be opened ({error}): build or install it again for torch "
            f"{torch.__version__}"
        ) from error


def choose(builds: dict[str, ModuleType], torch: ModuleType) -> str:
    """Choose the package whose core fits the running torch.

    Args:
        builds: the ``_build_info`` module of each core that is present, by the package that has the core.
        torch: the running torch.

    Raises:
        ImportError: no core fits; the message names the cores, the running torch, and what to install.
    """
    version = str(torch.__version__)
    cxx11_abi = bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    running = _describe(version, cxx11_abi, is_fork_like(version))
    described = {
        place: _describe(info.TORCH_VERSION, bool(info.CXX11_ABI), bool(info.FORK))
        for place, info in builds.items()
    }
    for place, built in described.items():
        if built == running:
            return place
    for place, info in builds.items():
        if _same_binaries(info, torch):
            return place
    if not builds:
        raise ImportError(
            f"{__package__} has no compiled core in {os.path.dirname(__file__)}: install a wheel of the hpu "
            "backend, or build it from its source tree"
        )
    if len(builds) == 1:
        (info,) = builds.values()
        check_build(info.TORCH_VERSION, bool(info.CXX11_ABI), bool(info.FORK), version, cxx11_abi)
    raise ImportError(
        f"the hpu backend that is installed has cores for {'; '.join(sorted(described.values()))}, and torch "
        f"{version} is running ({running}): install the build of the backend for {running}, or a torch that "
        "is among these"
    )


def _builds(package: str) -> dict[str, ModuleType]:
    """The ``_build_info`` of each core that is present, by the package that has the core."""
    folder = os.path.join(os.path.dirname(__file__), "_builds")
    keys = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    places = [package, *(f"{package}._builds.{key}" for key in keys if key.isidentifier())]
    infos = {place: _build_info(place) for place in places}
    return {place: info for place, info in infos.items() if info is not None}


def _build_info(package: str) -> ModuleType | None:
    """The module that the build of a core wrote beside it, or None if there is no core."""
    try:
        return importlib.import_module(f"{package}._build_info")
    except ModuleNotFoundError:
        return None


def _same_binaries(info: ModuleType, torch: ModuleType) -> bool:
    """Say whether a core that was built for a public torch fits a fork-like one byte by byte."""
    version = str(torch.__version__)
    recorded = getattr(info, "TORCH_BINARIES", None)
    if recorded is None or bool(info.FORK) == is_fork_like(version):
        return False
    return bool(torch_build.binaries(str(torch.__file__), version) == recorded)


def _open(place: str, name: str) -> ModuleType:
    """Import an extension module from another place under the name that all other modules use."""
    origin_spec = importlib.util.find_spec(place)
    if origin_spec is None or origin_spec.origin is None:
        raise ImportError(f"there is no {place.rpartition('.')[0]}._C beside its _build_info")
    spec = importlib.util.spec_from_file_location(name, origin_spec.origin)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    sys.modules[name.rpartition(".")[0]]._C = module  # type: ignore[attr-defined]
    return module


def _release(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])


def _describe(version: str, cxx11_abi: bool, fork: bool) -> str:
    kind = "fork-like" if fork else "public"
    return f"{kind} torch {_release(version)} with C++11 ABI {int(cxx11_abi)}"
