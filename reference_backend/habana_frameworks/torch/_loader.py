"""Load the compiled core, after checks that reject an unsuitable torch and the Intel Gaudi bridge.

Without the checks, the process would crash. A source tree has one core next to this file. A wheel has several
cores in ``_builds/KEY``, one for each release, ABI and kind of torch (public or fork-like). A fork-like torch
has a version label that starts with ``git`` or ``hpu``. The loader uses the core that was built for the
running torch. A fork-like torch that has the headers and libraries of a public torch (a repacked wheel) can
use the core for the public torch, because a core does not depend on the version string.
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

from .internal import core_builds, torch_build
from .internal.settings.mode import is_fork_like

_BRIDGE_LIBRARY = os.path.join("torch", "lib", "libhabana_pytorch*_plugin*.so")


def reject_installed_bridge(package_paths: Iterable[str]) -> None:
    """Raise ImportError if the package `habana_frameworks` also contains the Intel Gaudi bridge.

    The bridge and this simulated device register the same dispatch key, so a process can load only one.

    Args:
        package_paths: the folders of the namespace package `habana_frameworks`.

    Raises:
        ImportError: a folder contains the plugin library of the bridge.
    """
    for folder in package_paths:
        libraries = glob.glob(os.path.join(glob.escape(folder), _BRIDGE_LIBRARY))
        if libraries:
            raise ImportError(
                f"the Intel Gaudi bridge is installed ({libraries[0]}) and this simulated device would "
                "replace it. Use an environment without the bridge, or uninstall this backend."
            )


def require_matching_torch(
    built_version: str,
    built_cxx11_abi: bool,
    built_for_fork: bool,
    torch_version: str,
    torch_cxx11_abi: bool,
) -> None:
    """Raise ImportError unless the core was compiled for a torch like the running torch.

    The C++ interface of torch depends on the major and minor version, on the C++11 ABI, and on whether the
    build is fork-like. These properties must agree before the core can be opened.

    Raises:
        ImportError: the builds differ; the message names both builds of torch and the package to install.
    """
    built = _describe_build(built_version, built_cxx11_abi, built_for_fork)
    running = _describe_build(torch_version, torch_cxx11_abi, is_fork_like(torch_version))
    if built != running:
        raise ImportError(
            f"this build of the hpu backend is for {built} but torch {torch_version} is running ({running}). "
            f"Install the build of the backend for {running}, or torch=={_major_minor(built_version)}.* "
            f"({built})."
        )


def reject_torch_for_other_accelerator(torch: ModuleType) -> None:
    """Raise ImportError if torch was built for another accelerator and does not support hpu in addition.

    Since release 2.7, torch derives its accelerator from its build and not from the hardware. Effects with a
    CUDA build: on 2.7 the accelerator is cuda; on 2.13 and 2.15 every backward pass, even on the CPU, raises
    "Cannot have both HPU and cuda". On 2.6, a CUDA build works with hpu if the machine has no GPU.

    Raises:
        ImportError: torch 2.7 or later was built for CUDA, ROCm or XPU.
    """
    built_with = [name for name in ("cuda", "hip", "xpu") if getattr(torch.version, name, None)]
    release = tuple(int(part) for part in re.findall(r"\d+", str(torch.__version__))[:2])
    if built_with and release >= (2, 7):
        raise ImportError(
            f"torch {torch.__version__} was built with {built_with[0]} and does not support hpu in addition. "
            "Install a CPU build (pip install torch --index-url https://download.pytorch.org/whl/cpu)."
        )


def load_core(torch: ModuleType) -> ModuleType:
    """Open the extension module `habana_frameworks.torch._C`, which registers the device with torch.

    Raises:
        ImportError: no core fits this torch, or the core cannot be opened.
    """
    package = str(__package__)
    key = core_builds.dispatch_key()
    if key == "HPU":
        reject_torch_for_other_accelerator(torch)
    builds = core_builds.build_infos(package)
    builds_with_key = {
        name: info for name, info in builds.items() if core_builds.dispatch_key_of_core(info) == key
    }
    if builds and not builds_with_key:
        raise ImportError(
            f"{package} has a core, but none with the dispatch key {key}. Build one with "
            f"HPU_REFERENCE_KEY={key} python setup.py build_ext --inplace, or unset HPU_REFERENCE_KEY."
        )
    core_package = choose_core_package(builds_with_key, torch)
    try:
        if core_package == package:
            return importlib.import_module(f"{package}._C")
        return _import_core_as(f"{core_package}._C", f"{package}._C")
    except ImportError as error:
        raise ImportError(
            f"the compiled core of {package} could not be opened ({error}). Build or install it again for "
            f"torch {torch.__version__}."
        ) from error


def choose_core_package(builds: dict[str, ModuleType], torch: ModuleType) -> str:
    """Return the name of the package whose core fits the running torch.

    Args:
        builds: the ``_build_info`` module of each existing core, by the package that contains the core.
        torch: the running torch.

    Raises:
        ImportError: no core fits; the message names the cores, the running torch, and the package to install.
    """
    version = str(torch.__version__)
    cxx11_abi = bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    running = _describe_build(version, cxx11_abi, is_fork_like(version))
    described = {
        core_package: _describe_build(info.TORCH_VERSION, bool(info.CXX11_ABI), bool(info.FORK))
        for core_package, info in builds.items()
    }
    for core_package, built in described.items():
        if built == running:
            return core_package
    for core_package, info in builds.items():
        if _is_repacked_torch(info, torch):
            return core_package
    if not builds:
        raise ImportError(
            f"{__package__} has no compiled core in {os.path.dirname(__file__)}. Install a wheel of the hpu "
            "backend, or build it from its source tree."
        )
    if len(builds) == 1:
        (info,) = builds.values()
        require_matching_torch(info.TORCH_VERSION, bool(info.CXX11_ABI), bool(info.FORK), version, cxx11_abi)
    raise ImportError(
        f"the installed hpu backend has cores for {'; '.join(sorted(described.values()))}, but torch "
        f"{version} is running ({running}). Install the build of the backend for {running}, or one of these "
        "torch versions."
    )


def _is_repacked_torch(info: ModuleType, torch: ModuleType) -> bool:
    """Return whether a core fits the running torch, because one torch is a repacked copy of the other.

    This is True if exactly one of the two torch builds is fork-like, and their binaries are equal.

    Args:
        info: the ``_build_info`` of a core, which describes the torch for which the core was built.
        torch: the running torch.
    """
    version = str(torch.__version__)
    recorded = getattr(info, "TORCH_BINARIES", None)
    if recorded is None or bool(info.FORK) == is_fork_like(version):
        return False
    return bool(torch_build.torch_binaries_digest(str(torch.__file__), version) == recorded)


def _import_core_as(source_name: str, name: str) -> ModuleType:
    """Import the extension module `source_name` under the name `name`, which all other modules import."""
    origin_spec = importlib.util.find_spec(source_name)
    if origin_spec is None or origin_spec.origin is None:
        raise ImportError(f"{source_name.rpartition('.')[0]}._C does not exist next to its _build_info")
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


def _major_minor(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])


def _describe_build(version: str, cxx11_abi: bool, fork: bool) -> str:
    kind = "fork-like" if fork else "public"
    return f"{kind} torch {_major_minor(version)} with C++11 ABI {int(cxx11_abi)}"
