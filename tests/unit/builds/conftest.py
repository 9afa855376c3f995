"""Fixtures that create an artificial torch installation, and compile shared objects for either C++ ABI."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

#: C++ sources, which need no header of torch: functions that libc10 defines (LIBRARY), an extension that uses
#: these functions (EXTENSION), an extension with torch's stable ABI (STABLE), and an extension that does not
#: use torch (PLAIN).
LIBRARY = """
#include <string>
namespace c10 {
struct SourceLocation { const char* a; const char* b; unsigned c; };
struct Error { Error(SourceLocation, std::string); };
Error::Error(SourceLocation, std::string) {}
namespace detail { void torchCheckFail(const char*, const char*, unsigned, const std::string&) {} }
}
"""
EXTENSION = """
#include <string>
namespace c10::detail { void torchCheckFail(const char*, const char*, unsigned, const std::string&); }
extern "C" void use() { c10::detail::torchCheckFail("", "", 1, std::string("x")); }
"""
STABLE = """
extern "C" int aoti_torch_get_dim(void*, long*);
extern "C" int use(void* t) { long n; return aoti_torch_get_dim(t, &n); }
"""
PLAIN = 'extern "C" int use() { return 1; }\n'
SOURCES = {"library": LIBRARY, "extension": EXTENSION, "stable": STABLE, "plain": PLAIN}

Compile = Callable[[str, int], Path]


@pytest.fixture(scope="session")
def compile_shared_object(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Return a function ``(name, abi)`` that compiles the C++ source ``name`` for the C++ ABI 0 or 1, and
    returns the path of the shared object.
    """
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler is installed")
    folder = tmp_path_factory.mktemp("objects")

    def make(name: str, abi: int) -> Path:
        library = folder / f"{name}{abi}.so"
        if not library.exists():
            source = folder / f"{name}.cpp"
            source.write_text(SOURCES[name])
            command = ["g++", "-std=c++17", "-shared", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
            subprocess.run([*command, str(source), "-o", str(library)], check=True)
        return library

    return make


@pytest.fixture
def create_site_packages(tmp_path: Path, compile_shared_object: Compile) -> Callable[..., Path]:
    """Return a function that creates a site-packages folder with a torch of the given version."""

    def make(
        version: str = "2.13.0+cpu",
        *,
        abi: int = 1,
        extra: str = "",
        recorded: bool = True,
        name: str = "site",
    ) -> Path:
        folder = tmp_path / name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "torch" / "lib").mkdir(parents=True)
        (folder / "torch" / "__init__.py").write_text("raise RuntimeError('nothing imports this')\n")
        text = f"__version__ = {version!r}\ngit_version = 'cf30153c4c13'\n{extra}"
        (folder / "torch" / "version.py").write_text(text)
        shutil.copy(compile_shared_object("library", abi), folder / "torch" / "lib" / "libc10.so")
        if recorded:
            info = folder / f"torch-{version.partition('+')[0]}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Name: torch\nVersion: {version}\n")
            library = compile_shared_object("library", abi)
            (info / "RECORD").write_text(
                f"torch/version.py,sha256=abc,{len(text)}\n"
                f"torch/lib/libc10.so,sha256={version}{abi},{library.stat().st_size}\n"
            )
        return folder

    return make
