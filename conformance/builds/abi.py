"""Measure the C++ ABI of a shared object from the names of its symbols.

A function of torch with a ``std::string`` argument has a different mangled name under each ABI of libstdc++
(``_GLIBCXX_USE_CXX11_ABI``). The flag that torch itself reports is constant in new releases, so it is not
used. The ABI of torch is measured from the symbols that libc10 defines. The ABI of an extension is measured
from the symbols of torch that the extension imports.
"""

from __future__ import annotations

import dataclasses
import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from conformance.errors import UsageError

#: Matches mangled names in the namespaces of torch.
_OF_TORCH = re.compile(r"_Z(?:T[VIS])?(?:N[KVRO]*)?(?:3c10|4c10d|2at|5torch|6caffe2)")
_NEW = ("NSt7__cxx11", "B5cxx11")
#: Matches functions of torch's stable ABI: C functions without strings, equal under both ABIs.
_STABLE = re.compile(r"aoti_torch_[a-z0-9_]+$")
#: Matches a token of a mangled name. Digits in substitutions, template parameters and literals are part of
#: these tokens, because they are not lengths of identifiers.
_TOKEN = re.compile(r"S[0-9A-Z]*_|T[0-9]*_|A[0-9]+_|L[a-z]n?[0-9]+E|S[a-z]|[0-9]+|.", re.S)
#: The maximum size of a member of a wheel in bytes.
_LARGEST = 4 << 30


@dataclasses.dataclass(frozen=True)
class Abi:
    """A measured C++ ABI.

    ``value`` is the value of ``_GLIBCXX_USE_CXX11_ABI`` (``0`` or ``1``), ``stable`` or ``unknown``. ``new``
    and ``old`` count the symbols of torch that contain the new and the old ``std::string``. ``example`` is
    one of these symbols. ``files`` is the number of files that were read.
    """

    value: str
    new: int = 0
    old: int = 0
    files: int = 0
    example: str = ""

    def describe(self) -> str:
        """Return a text with the ABI and the counts of symbols that are evidence for it."""
        if self.value == "stable":
            return f"stable ABI: {self.files} files use only C functions of torch and no C++ strings"
        if not self.new + self.old:
            return f"ABI {self.value}: no symbol of torch with a string in {self.files} files"
        return (
            f"ABI {self.value}: {self.new} symbols with the new string and {self.old} with the old string in "
            f"{self.files} files, e.g. {self.example}"
        )


def contains_old_std_string(mangled: str) -> bool:
    """Return True if a mangled name contains the old ``std::string``, whose abbreviation is ``Ss``.

    The letters ``Ss`` inside an identifier are ignored.
    """
    offset = 0
    # ``literal`` is true inside L TYPE VALUE E, whose digits are a value and not a length.
    literal = nested = named = False
    while True:
        match = _TOKEN.match(mangled, offset)
        if match is None:
            return False
        token = match.group()
        offset = match.end()
        if token == "Ss":
            return True
        if token == "L":
            literal, nested, named = True, False, False
        elif literal and token == "N":
            nested = True
        elif literal and token == "E":
            literal, nested, named = nested, False, True
        elif token.isdigit() and literal and named and not nested:
            literal = False  # this token is the value of the literal
        elif token.isdigit():
            offset += int(token)  # skip an identifier with this length
            named = True


def dynamic_symbols(file: IO[bytes], *, defined: bool) -> Iterator[str]:
    """Yield the dynamic symbols that a shared object defines, or, if ``defined`` is False, imports.

    Raise UsageError if the file is not a shared object.
    """
    try:
        table = ELFFile(file).get_section_by_name(".dynsym")
        if not isinstance(table, SymbolTableSection):
            return
        for symbol in table.iter_symbols():
            if symbol.name and (symbol["st_shndx"] != "SHN_UNDEF") == defined:
                yield symbol.name
    except (ELFError, ArithmeticError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise UsageError(
            f"{getattr(file, 'name', 'the file')} is not an ELF shared object ({error})"
        ) from None


def abi_from_symbols(symbols_by_file: Iterable[Iterable[str]]) -> Abi:
    """Return the ABI measured from the symbols of several files."""
    new = old = stable = cxx_symbols = files = 0
    examples: dict[bool, str] = {}
    for of_file in symbols_by_file:
        files += 1
        for name in of_file:
            if not _OF_TORCH.match(name):
                stable += _STABLE.match(name) is not None
                continue
            cxx_symbols += 1
            if any(mark in name for mark in _NEW):
                new += 1
                examples.setdefault(True, name)
            elif contains_old_std_string(name):
                old += 1
                examples.setdefault(False, name)
    if new and old:
        value = "unknown"
    elif new or old:
        value = "1" if new else "0"
    else:
        value = "stable" if stable and not cxx_symbols else "unknown"
    return Abi(value, new, old, files, examples.get(new >= old, ""))


def abi_of_torch(location: Path) -> Abi:
    """Return the ABI of torch in a wheel, or in a folder that contains ``torch/lib/libc10.so``."""
    name = "torch/lib/libc10.so"
    if location.is_dir():
        file = location / name
        if not file.is_file():
            raise UsageError(f"{location} has no {name}; give a site-packages folder or a wheel of torch")
        with file.open("rb") as opened:
            return abi_from_symbols([dynamic_symbols(opened, defined=True)])
    with _open_wheel(location) as wheel:
        if name not in wheel.namelist():
            raise UsageError(f"{location} has no {name}; give a wheel of torch for Linux")
        return abi_from_symbols([dynamic_symbols(_read_member(wheel, name), defined=True)])


def abi_of_extension(location: Path) -> Abi:
    """Return the ABI of a backend: a shared object, a folder with shared objects, or a wheel.

    The backend is not imported. Raise UsageError if no shared object is found.
    """
    if location.is_dir():
        files = sorted(
            path for path in location.rglob("*") if _is_shared_library_name(path.name) and path.is_file()
        )
        if not files:
            raise UsageError(
                f"{location} contains no shared object; give the backend's package, a .so file or a wheel"
            )
        return abi_from_symbols(_imported_symbols(path) for path in files)
    if _is_shared_library_name(location.name):
        if not location.is_file():
            raise UsageError(f"{location} does not exist; give a .so file, a folder or a wheel")
        return abi_from_symbols([_imported_symbols(location)])
    with _open_wheel(location) as wheel:
        names = sorted(name for name in wheel.namelist() if _is_shared_library_name(name))
        if not names:
            raise UsageError(
                f"{location} contains no shared object; it fits every ABI, so a check is not needed"
            )
        return abi_from_symbols(
            list(dynamic_symbols(_read_member(wheel, name), defined=False)) for name in names
        )


def abi_mismatch_message(backend: str, built_for: Abi, torch: str, torch_abi: Abi) -> str | None:
    """Return an error sentence if the ABIs differ, or None if they are equal or one of them is unknown."""
    if {built_for.value, torch_abi.value} != {"0", "1"}:
        return None
    wheels = (
        "public Linux wheels up to 2.6.0" if built_for.value == "0" else "public Linux wheels from 2.7 on"
    )
    return (
        f"{backend} was built for C++ ABI {built_for.value} and torch {torch} has ABI {torch_abi.value}: "
        f"install the build of {backend} for ABI {torch_abi.value}, "
        f"or a torch with ABI {built_for.value} ({wheels})"
    )


def _imported_symbols(path: Path) -> list[str]:
    with path.open("rb") as file:
        return list(dynamic_symbols(file, defined=False))


def _is_shared_library_name(name: str) -> bool:
    return re.search(r"\.so(\.[0-9.]+)?$", name) is not None


def _open_wheel(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} cannot be read as a wheel ({error}); give a .whl file") from None


def _read_member(wheel: zipfile.ZipFile, name: str) -> IO[bytes]:
    if wheel.getinfo(name).file_size > _LARGEST:
        raise UsageError(
            f"{name} in the wheel has {wheel.getinfo(name).file_size} bytes, more than the limit of "
            f"{_LARGEST}; unpack the wheel and pass its folder instead"
        )
    try:
        return io.BytesIO(wheel.read(name))
    except (zipfile.BadZipFile, OSError, EOFError) as error:
        raise UsageError(f"{name} in the wheel is damaged ({error}); get the wheel again") from None
