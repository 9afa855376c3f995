"""The third-party backends on which the suite runs: their torch, their packages and their sources.

This repository does not contain their sources. A backend in a package index is installed from the index. For
any other backend, the option ``--tree`` passes a checkout of its source.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class ThirdPartyBackend:
    """A PyTorch backend of another project, and how to install the backend.

    ``target`` is the name of the backend's target file. ``torch`` is the release that the backend needs; by
    default the session's release. ``requirements`` are packages of a package index. ``source`` names the
    repository, the commit or tag, and the folder for ``--tree``. If ``is_installed`` is true, this folder is
    installed with pip; otherwise the folder is only added to Python's path.
    """

    target: str
    torch: str = ""
    requirements: tuple[str, ...] = ()
    source: str = ""
    is_installed: bool = False
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)


_OPENREG = "test/cpp_extensions/open_registration_extension/torch_openreg"

#: The third-party backends by name.
BACKENDS: dict[str, ThirdPartyBackend] = {
    backend.target: backend
    for backend in (
        ThirdPartyBackend("torch_xla", "2.9.0", requirements=("torch_xla==2.9.0",)),
        ThirdPartyBackend(
            "tinygrad",
            requirements=("ninja",),
            source="tinygrad/tinygrad at a9069c177a (its top folder; clang must be installed)",
            variables={"DEV": "CPU"},
        ),
        ThirdPartyBackend(
            "pytorch_ocl",
            source="artyom-beilis/pytorch_dlprim at 30e27c8 (its build folder, which contains the package "
            "pytorch_ocl; an OpenCL device must be installed)",
        ),
        ThirdPartyBackend(
            "torch_openreg",
            requirements=("cmake", "ninja", "setuptools", "wheel"),
            source=f"pytorch/pytorch at the tag of the torch release, with its submodule "
            f"third_party/googletest (its folder {_OPENREG})",
            is_installed=True,
        ),
    )
}
