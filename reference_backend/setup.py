"""Build the C++ core, and ``libhlml.so``, the management library, which needs neither torch nor Python.

torch's extension builder compiles with ninja, and uses ccache if ccache is installed.

A build in place for a public torch writes the core next to the package's modules. The core for a fork-like
torch (whose version label starts with ``git`` or ``hpu``), and the core with the dispatch key PrivateUse1
(``HPU_REFERENCE_KEY=PrivateUse1``), are written to ``_builds/KEY``. Each core has its own object files, so
one checkout serves several environments. A fork-like torch that is a repacked public torch uses the core for
the public torch (see ``_loader.py``).

``HPU_REFERENCE_ONE_OF_MANY=1`` writes each core to ``_builds/KEY``, and the wheel then contains all cores in
this folder. Such a wheel fits the Python version that built it, and each torch for which it has a core.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import torch
import torch.profiler
from setuptools import Distribution, Extension, setup
from setuptools.command.build_py import build_py
from torch.utils.cpp_extension import BuildExtension, CppExtension, include_paths

HERE = Path(__file__).parent
PACKAGE = HERE / "habana_frameworks" / "torch"
SOURCES = sorted(str(path.relative_to(HERE)) for path in (HERE / "csrc").rglob("*.cpp"))
VERSION = str(torch.__version__)
CXX11_ABI = bool(torch._C._GLIBCXX_USE_CXX11_ABI)
FORK = VERSION.partition("+")[2].startswith(("git", "hpu"))


def import_from_file(path: Path) -> ModuleType | None:
    """Import a module of the package from its file, because importing the package needs the built core."""
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gaudi_plugin_metadata = import_from_file(HERE / "gaudi_plugin_metadata.py")
DEVICE_VERSION = import_from_file(PACKAGE / "version.py").__version__
torch_build = import_from_file(PACKAGE / "internal" / "torch_build.py")
BINARIES = torch_build.torch_binaries_digest(torch.__file__, VERSION)
MULTI_TORCH_WHEEL = os.environ.get("HPU_REFERENCE_ONE_OF_MANY") == "1"
#: The dispatch key for which the core is built: HPU or PrivateUse1.
KEY = os.environ.get("HPU_REFERENCE_KEY") or "HPU"
if KEY not in torch_build.DEVICE_TYPES:
    raise SystemExit(f"HPU_REFERENCE_KEY={KEY!r} is not valid. Use {' or '.join(torch_build.DEVICE_TYPES)}.")
HAS_OWN_FOLDER = FORK or MULTI_TORCH_WHEEL or KEY != "HPU"
FOLDER = f"_builds/{torch_build.core_folder_name(VERSION, CXX11_ABI, FORK, KEY)}" if HAS_OWN_FOLDER else "."
BUILD_INFO = f"""\
\"\"\"Written by the build: the torch that the core was compiled against.\"\"\"

TORCH_VERSION = {VERSION.partition("+")[0]!r}
CXX11_ABI = {CXX11_ABI!r}
FORK = {FORK!r}
KEY = {KEY!r}
TORCH_BINARIES = {BINARIES!r}
"""


def has_fitting_public_core() -> bool:
    """Return whether the running torch is a repacked public torch for which a core already exists."""
    info = import_from_file(PACKAGE / "_build_info.py") if FORK and BINARIES and KEY == "HPU" else None
    return info is not None and getattr(info, "TORCH_BINARIES", None) == BINARIES


class BuildCore(BuildExtension):
    """Command ``build_ext``: build the core, and write the file ``_build_info.py`` next to the core."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if FOLDER != ".":
            self.build_temp = f"{self.build_temp}-{Path(FOLDER).name}"
            if self.inplace:
                # Build into a separate folder. Otherwise a wheel for another torch would include this core.
                self.build_lib = f"{self.build_lib}-{Path(FOLDER).name}"

    def get_ext_filename(self, fullname: str) -> str:
        """Return the path of an extension below the build folder; ``libhlml.so`` has no Python suffix."""
        if fullname.rpartition(".")[2] == LIBRARY.name.rpartition(".")[2]:
            return str(Path(*fullname.split(".")).with_suffix(".so"))
        return str(super().get_ext_filename(fullname))

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return [] if ext.name == LIBRARY.name else super().get_export_symbols(ext)

    def run(self) -> None:
        if self.inplace:
            gaudi_plugin_metadata.write_metadata(HERE, DEVICE_VERSION)
        if not self.extensions:
            return
        root = HERE if self.inplace else Path(self.build_lib)
        path = root / "habana_frameworks" / "torch" / FOLDER / "_build_info.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        super().run()
        if not path.exists() or path.read_text() != BUILD_INFO:
            path.write_text(BUILD_INFO)


# Start one compiler for each processor core. By default ninja starts two more, which overloads a small
# machine.
os.environ.setdefault("MAX_JOBS", str(os.cpu_count() or 1))

# Torch's builder uses ccache if it is installed. With these settings, ccache reuses a compiled file in
# another checkout whose environment has the same relative path.
os.environ.setdefault("CCACHE_BASEDIR", str(HERE.parent))
os.environ.setdefault("CCACHE_NOHASHDIR", "1")

# The headers alone do not show whether torch has Kineto, because a build without Kineto contains them too.
HEADERS = Path(torch.__file__).parent / "include"
HAS_KINETO = torch.profiler.kineto_available() and (HEADERS / "kineto").is_dir()
#: True for torch 2.6: Kineto's headers include headers of the library fmt, which torch's wheel does not
#: contain.
WITHOUT_FMT = HAS_KINETO and not (HEADERS / "fmt").is_dir()

EXTENSION = CppExtension(
    ".".join(("habana_frameworks", "torch", *Path(FOLDER).parts, "_C")),
    SOURCES,
    include_dirs=[str(HERE / "csrc"), *([str(HERE / "csrc" / "compat")] if WITHOUT_FMT else [])],
    extra_compile_args=[
        "-std=c++20",  # the builder of torch 2.6 would pass -std=c++17
        "-O2",
        "-g0",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-parameter",
        "-fvisibility=hidden",
        f"-DHPU_REFERENCE_KINETO={int(HAS_KINETO)}",
        *(["-DHPU_REFERENCE_PRIVATEUSE1"] if KEY == "PrivateUse1" else []),
        # Warnings are errors in this project's code, but not in torch's headers.
        *(f"-isystem{path}" for path in include_paths()),
    ],
)

LIBRARY = Extension(
    "hpu_reference_tools.libhlml",
    sorted(str(path.relative_to(HERE)) for path in (HERE / "hlml").glob("*.cpp")),
    extra_compile_args=[
        *("-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"),
        f'-DHPU_REFERENCE_VERSION="{DEVICE_VERSION}"',
    ],
    extra_link_args=["-pthread", "-static-libstdc++"],
)

# For `nox -s coverage`: instrument the core for gcov. The counters are atomic, because several threads run
# the same lines concurrently.
if os.environ.get("HPU_REFERENCE_COVERAGE") == "1":
    EXTENSION.extra_compile_args += ["--coverage", "-O1", "-fprofile-update=atomic"]
    EXTENSION.extra_link_args += ["--coverage"]

# For `nox -s sanitize`: the kind of checks in the core ("" for none). A core with checks verifies the order
# in which its locks are taken. With "thread" or "address", a compiler sanitizer also checks memory accesses.
SANITIZE = os.environ.get("HPU_REFERENCE_SANITIZE", "")
SANITIZERS = {
    "": [],
    "locks": [],
    # -Wno-tsan disables the warning that TSan does not support fences. The core uses fences only between
    # processes, and TSan checks only one process.
    "thread": ["-fsanitize=thread", "-Wno-tsan", "-O1", "-g1", "-fno-omit-frame-pointer"],
    # -Wno-maybe-uninitialized: in instrumented code, gcc wrongly reports uninitialised variables in torch's
    # headers.
    "address": [
        *("-fsanitize=address,undefined", "-fno-sanitize=vptr", "-Wno-maybe-uninitialized"),
        *("-O1", "-g1", "-fno-omit-frame-pointer"),
    ],
}
if SANITIZE not in SANITIZERS:
    raise SystemExit(f"HPU_REFERENCE_SANITIZE={SANITIZE!r} is not valid. Use locks, thread or address.")
if SANITIZE:
    EXTENSION.extra_compile_args += ["-DHPU_REFERENCE_CHECK_LOCKS", *SANITIZERS[SANITIZE]]
    EXTENSION.extra_link_args += SANITIZERS[SANITIZE]

# Skip the build if the environment requests it (the core was built before), or if an existing core also fits
# the running torch.
SKIPPED = os.environ.get("HPU_REFERENCE_SKIP_EXTENSION") == "1"
if "--inplace" in sys.argv and has_fitting_public_core():
    print(f"Nothing to build: the core in {PACKAGE} was built for the same binaries as torch {VERSION}.")
    SKIPPED = True


class PlatformWheelDistribution(Distribution):
    """Distribution whose wheel is platform-specific, even if this run builds no core for the wheel."""

    def has_ext_modules(self) -> bool:
        return MULTI_TORCH_WHEEL or super().has_ext_modules()


class BuildPyWithCores(build_py):
    """Command ``build_py`` that adds the plugin metadata, and all cores if ``MULTI_TORCH_WHEEL``."""

    def run(self) -> None:
        super().run()
        gaudi_plugin_metadata.write_metadata(Path(self.build_lib), DEVICE_VERSION)
        library = HERE / "hpu_reference_tools" / "libhlml.so"
        if MULTI_TORCH_WHEEL and library.exists():
            self.copy_file(str(library), str(Path(self.build_lib) / library.relative_to(HERE)))
        for core in sorted(PACKAGE.glob("_builds/*/_C*.so")) if MULTI_TORCH_WHEEL else ():
            target = Path(self.build_lib) / core.relative_to(HERE)
            target.parent.mkdir(parents=True, exist_ok=True)
            self.copy_file(str(core), str(target))


setup(
    ext_modules=[] if SKIPPED else [EXTENSION, LIBRARY],
    cmdclass={"build_ext": BuildCore, "build_py": BuildPyWithCores},
    distclass=PlatformWheelDistribution,
)
