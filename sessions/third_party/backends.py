"""The third-party backends on which the suite runs: their torch, their packages and their sources.

None of their sources is part of this repository. A backend of a package index is installed from there; the
source of another is a checkout that the option ``--tree`` names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class ThirdPartyBackend:
    """A backend that this project does not make.

    ``target`` is the name of its target file. ``torch`` is the release that it needs; by default that of the
    session. ``requirements`` are packages of the index. ``source`` names the repository, the commit or tag,
    and the folder for ``--tree``. That folder is installed if ``is_installed`` is true; otherwise it is only
    added to Python's path.
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
