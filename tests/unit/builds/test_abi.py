"""``builds.abi`` reads the C++ ABI of shared objects from their symbols."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from conformance.builds import abi
from conformance.errors import UsageError


@pytest.mark.parametrize("value", [0, 1])
def test_the_abi_of_a_torch_and_of_an_extension(value, compile_shared_object, create_site_packages):
    extension = abi.abi_of_extension(compile_shared_object("extension", value))
    assert extension.value == str(value)
    assert (extension.old > 0, extension.new > 0) == (value == 0, value == 1)
    torch = abi.abi_of_torch(create_site_packages(abi=value))
    assert torch.value == str(value)
    assert torch.example in torch.describe()


def test_functions_that_an_extension_defines_itself_are_ignored(compile_shared_object):
    """If an extension contains its own copy of torch's functions, its ABI is unknown. The copy does not show
    the ABI of the torch that the extension needs.
    """
    assert abi.abi_of_extension(compile_shared_object("library", 0)).value == "unknown"


def test_extensions_that_pass_no_strings(compile_shared_object):
    assert abi.abi_of_extension(compile_shared_object("stable", 1)).value == "stable"
    assert abi.abi_of_extension(compile_shared_object("plain", 1)).value == "unknown"


def test_a_folder_with_both_abis_is_unknown(compile_shared_object, tmp_path):
    for value in (0, 1):
        (tmp_path / f"part{value}.so").write_bytes(compile_shared_object("extension", value).read_bytes())
    result = abi.abi_of_extension(tmp_path)
    assert (result.value, result.files) == ("unknown", 2)
    assert result.new and result.old


def test_the_abi_of_an_extension_in_a_wheel(compile_shared_object, tmp_path):
    wheel = tmp_path / "backend-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        out.write(compile_shared_object("extension", 0), "backend/_C.so")
        out.writestr("backend/__init__.py", "")
    assert abi.abi_of_extension(wheel).value == "0"


@pytest.mark.parametrize(
    ("mangled", "old"),
    [
        ("_ZN3c105ErrorC1ENS_14SourceLocationESs", True),
        ("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", True),
        ("_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", False),
        ("_ZN3c108ClassSsxEv", False),  # the identifier ClassSsx contains "Ss"
        ("_ZN2at6TensorILi12ESsE", True),
        ("_ZN2at6TensorS12_RKSs", True),
        ("_ZN3c103fooILNS_10ScalarTypeE7EEEvSs", True),  # 7 is the value of an enum and not a length
        ("_ZN3c103fooILNS_10ScalarTypeE2EEEvi", False),
        ("_ZN2at3barERA10_cSs", True),
        ("", False),
    ],
)
def test_the_old_string_in_a_mangled_name(mangled, old):
    assert abi.contains_old_std_string(mangled) is old


def test_mismatch_agrees_with_the_dynamic_loader(compile_shared_object, tmp_path):
    """The loader rejects an extension if and only if the suite reports an ABI mismatch."""
    for library in (0, 1):
        for extension in (0, 1):
            built_for = abi.abi_of_extension(compile_shared_object("extension", extension))
            sentence = abi.abi_mismatch_message("backend", built_for, "2.13.0", abi.Abi(str(library)))
            code = (
                "import ctypes, os\n"
                f"ctypes.CDLL({str(compile_shared_object('library', library))!r}, ctypes.RTLD_GLOBAL)\n"
                f"ctypes.CDLL({str(compile_shared_object('extension', extension))!r}, os.RTLD_NOW)\n"
            )
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            assert (done.returncode == 0) == (sentence is None), (library, extension, done.stderr)
            if sentence is not None:
                assert f"ABI {extension} and torch 2.13.0 has ABI {library}" in sentence
                assert sentence.count(". ") == 0 and "install" in sentence


def test_an_unknown_or_stable_abi_is_not_a_mismatch():
    for value in ("unknown", "stable"):
        assert abi.abi_mismatch_message("backend", abi.Abi(value), "2.13.0", abi.Abi("1")) is None


def test_a_file_that_is_not_a_shared_object_is_named(tmp_path: Path):
    (tmp_path / "text.so").write_text("not an ELF")
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.so").write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 20)
    for name, message in (
        ("text.so", "is not an ELF shared object"),
        ("cut.so", "is not an ELF shared object"),
        ("none.so", "does not exist"),
        ("empty", "contains no shared object"),
        ("none.whl", "cannot be read as a wheel"),
    ):
        with pytest.raises(UsageError, match=message):
            abi.abi_of_extension(tmp_path / name)
    with pytest.raises(UsageError, match=r"has no torch/lib/libc10\.so"):
        abi.abi_of_torch(tmp_path / "empty")


def test_the_torch_that_is_installed():
    import torch

    site = Path(torch.__file__).parents[1]
    assert abi.abi_of_torch(site).value == str(int(torch._C._GLIBCXX_USE_CXX11_ABI))
