"""Find the compiled cores (extension modules ``_C``), and the dispatch key of the core of this process."""

from __future__ import annotations

import functools
import glob
import importlib
import os
from types import ModuleType

from . import torch_build

#: The package that contains the cores.
PACKAGE = "habana_frameworks.torch"


def build_infos(package: str) -> dict[str, ModuleType]:
    """Return a dict from each package that contains a core to the core's module ``_build_info``."""
    folder = os.path.join(os.path.dirname(os.path.dirname(__file__)), "_builds")
    keys = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    packages = [package, *(f"{package}._builds.{key}" for key in keys if key.isidentifier())]
    infos = {core_package: _build_info(core_package) for core_package in packages}
    return {core_package: info for core_package, info in infos.items() if info is not None}


def dispatch_key_of_core(info: ModuleType) -> str:
    """Return the dispatch key for which a core was built, from the core's module ``_build_info``."""
    return str(getattr(info, "KEY", "HPU"))


@functools.cache
def dispatch_key() -> str:
    """Return the dispatch key of the core of this process: ``HPU`` or ``PrivateUse1``.

    ``HPU_REFERENCE_KEY`` selects the key. The default is HPU, or PrivateUse1 if all cores have this key.

    Raises:
        ImportError: ``HPU_REFERENCE_KEY`` is neither ``HPU`` nor ``PrivateUse1``.
    """
    requested = os.environ.get("HPU_REFERENCE_KEY", "")
    if requested and requested not in torch_build.DEVICE_TYPES:
        raise ImportError(
            f"HPU_REFERENCE_KEY={requested!r} is not a dispatch key of this device. Use "
            f"{' or '.join(torch_build.DEVICE_TYPES)}, or unset it."
        )
    keys = {dispatch_key_of_core(info) for info in build_infos(PACKAGE).values()}
    return requested or ("PrivateUse1" if keys == {"PrivateUse1"} else "HPU")


def _build_info(package: str) -> ModuleType | None:
    """Return the module ``_build_info`` of the core in a package, or None if the package has no core."""
    try:
        info = importlib.import_module(f"{package}._build_info")
    except ModuleNotFoundError:
        return None
    # The module alone is not enough: a wheel with a different core may contain this module without its core.
    folder = os.path.dirname(str(info.__file__))
    return info if glob.glob(os.path.join(glob.escape(folder), "_C*")) else None
