"""Test the effects and the errors of `import habana_frameworks.torch`."""

from __future__ import annotations

import os
import re
import shutil
import sys
import types
from pathlib import Path

import habana_frameworks.torch as ht
import pytest
from habana_frameworks.torch import _loader
from habana_frameworks.torch.internal import torch_build
from habana_frameworks.torch.internal.settings.mode import check_lazy_mode, is_fork_like

IMPORT = "import habana_frameworks.torch"


def test_torch_hpu_is_the_device_module():
    import torch.hpu.random  # must not load a second copy of the module

    assert torch.hpu is ht.hpu is ht.core.hpu is torch.hpu.hpu
    assert torch.get_device_module("hpu") is ht.hpu
    for name in ("random", "memory", "streams", "devices"):
        assert sys.modules[f"torch.hpu.{name}"] is sys.modules[f"habana_frameworks.torch.hpu.{name}"]
    assert torch.hpu.random is sys.modules["torch.hpu.random"]


def test_habana_frameworks_is_a_namespace_package():
    import habana_frameworks

    assert getattr(habana_frameworks, "__file__", None) is None


def test_import_does_not_acquire_the_device_and_is_light(output_of):
    code = (
        "import sys, torch; before = set(sys.modules)\n"
        "import habana_frameworks.torch\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "new -= {'habana_frameworks', 'torch'}\n"
        "print(torch.hpu.is_initialized(), new, 'torch._dynamo' in sys.modules)"
    )
    assert output_of(code) == "False set() False"


def test_compile_threads_are_set_unless_the_user_did(output_of):
    code = f"{IMPORT}, os; print(os.environ['TORCHINDUCTOR_COMPILE_THREADS'])"
    assert output_of(code) == "1"
    assert output_of(code, TORCHINDUCTOR_COMPILE_THREADS="3") == "3"


@pytest.mark.nightly("starts compiler processes for each choice", every=3)
@pytest.mark.parametrize("chosen", [None, "1", "3"])
def test_the_compiler_uses_all_cores_unless_the_user_chose(output_of, tmp_path, chosen):
    code = (
        f"{IMPORT}, torch\n"
        "from torch._inductor.async_compile import AsyncCompile\n"
        "torch.compile(lambda x: x.sin() + 1, backend='hpu_backend')(torch.ones(64, device='hpu'))\n"
        "print(AsyncCompile.pool()._max_workers if AsyncCompile.pool.cache_info().currsize else 1)"
    )
    environment = {} if chosen is None else {"TORCHINDUCTOR_COMPILE_THREADS": chosen}
    threads = int(output_of(code, TORCHINDUCTOR_CACHE_DIR=str(tmp_path), **environment))
    assert threads == (int(chosen) if chosen else len(os.sched_getaffinity(0)))


def test_lazy_mode_raises_at_import(run_python):
    done = run_python(IMPORT, PT_HPU_LAZY_MODE="1")
    assert "Error: PT_HPU_LAZY_MODE=1 " in done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("mode", ["1", "2", "0x3"])
def test_lazy_modes_need_a_fork_like_build(monkeypatch, mode):
    monkeypatch.setenv("PT_HPU_LAZY_MODE", mode)
    with pytest.raises(
        AssertionError, match=r"needs a fork-like build of torch, and 2.13.0\+cpu is a public build"
    ):
        check_lazy_mode("2.13.0+cpu")
    assert check_lazy_mode("2.13.0a0+git1") == int(mode, 0)
    monkeypatch.setenv("PT_HPU_LAZY_MODE", "0")
    assert check_lazy_mode("2.13.0+cpu") == 0


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PT_HPU_LAZY_MODE", "7"),
        ("PT_HPU_LAZY_MODE", "lazy"),
        ("PT_HPU_AUTOLOAD", "yes"),
        ("PT_HPU_INFERENCE_MODE", "maybe"),
    ],
)
def test_error_names_unknown_values(run_python, variable, value):
    done = run_python(IMPORT, **{variable: value})
    message = done.stderr.strip().splitlines()[-1]
    assert message.startswith(f"ValueError: {variable}={value!r}")
    assert " Use " in message


def test_lazy_mode_may_be_written_as_hexadecimal_or_left_empty(output_of):
    code = "from habana_frameworks.torch.internal import bridge_config as c; print(c.get_pt_hpu_lazy_mode())"
    assert output_of(code, PT_HPU_LAZY_MODE="0x0") == "0"
    assert output_of(code, PT_HPU_LAZY_MODE="") == "0"


@pytest.mark.parametrize(
    ("version", "fork"),
    [
        ("2.13.0", False),
        ("2.13.0+cpu", False),
        ("2.13.0+cu130", False),
        ("2.13.0a0+git1234567", True),
        ("2.13.0+hpu.1", True),
    ],
)
def test_fork_like_versions(version, fork):
    assert is_fork_like(version) is fork


@pytest.mark.parametrize(
    ("built", "running"),
    [
        (("2.6.0", False, False), ("2.13.0", True)),
        (("2.13.0", False, False), ("2.13.0", True)),
        (("2.13.0", True, True), ("2.13.0+cpu", True)),
        (("2.13.0", True, False), ("2.13.0a0+git1", True)),
        (("2.1.0", True, False), ("2.13.0", True)),
    ],
)
def test_another_torch_raises_before_the_core_is_loaded(built, running):
    with pytest.raises(ImportError, match=r"this build of the hpu backend is for .* Install") as error:
        _loader.require_matching_torch(*built, *running)
    assert running[0] in str(error.value)


def test_patch_releases_and_local_labels_do_not_matter():
    _loader.require_matching_torch("2.13.0", True, False, "2.13.1+cu130", True)
    _loader.require_matching_torch("2.13.0a0", True, True, "2.13.0a0+git77", True)


def _fake_torch_module(version, abi=True, **built_with):
    torch = types.ModuleType("torch")
    torch.__version__, torch.__file__ = version, "/none/torch/__init__.py"
    torch._C = types.SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=abi)
    torch.version = types.SimpleNamespace(cuda=None, hip=None, **built_with)
    return torch


def _fake_build_info(version, abi=True, fork=False):
    return types.SimpleNamespace(TORCH_VERSION=version, CXX11_ABI=abi, FORK=fork, TORCH_BINARIES=None)


BUILD_INFOS = {
    "b.2_6": _fake_build_info("2.6.0", abi=False),
    "b.2_13": _fake_build_info("2.13.0"),
    "b.fork": _fake_build_info("2.13.0", fork=True),
}


@pytest.mark.parametrize(
    ("torch", "core_name"),
    [
        (_fake_torch_module("2.6.0+cu124", abi=False), "b.2_6"),
        (_fake_torch_module("2.13.1+cpu"), "b.2_13"),
        (_fake_torch_module("2.13.0a0+git77"), "b.fork"),
    ],
)
def test_core_for_this_torch_is_chosen(torch, core_name):
    assert _loader.choose_core_package(BUILD_INFOS, torch) == core_name


@pytest.mark.parametrize(
    "torch",
    [
        _fake_torch_module("2.6.0"),
        _fake_torch_module("2.13.0", abi=False),
        _fake_torch_module("2.6.0+git1", abi=False),
        _fake_torch_module("2.9.0"),
    ],
)
def test_missing_core_for_this_torch_raises(torch):
    with pytest.raises(
        ImportError, match=r"has cores for fork-like torch 2\.13 .*; public torch 2\.6 .*Install"
    ):
        _loader.choose_core_package(BUILD_INFOS, torch)


def test_torch_built_for_another_accelerator_raises():
    for version, cuda in (("2.6.0+cu124", "12.4"), ("2.7.0+cpu", None), ("2.15.0+cpu", None)):
        torch = _fake_torch_module(version)
        torch.version.cuda = cuda
        _loader.reject_torch_for_other_accelerator(torch)
    for version in ("2.7.0+cu126", "2.13.0+cu130", "2.15.0+cu132"):
        torch = _fake_torch_module(version)
        torch.version.cuda = "13.0"
        with pytest.raises(
            ImportError, match=rf"torch {re.escape(version)} was built with cuda .* Install a CPU build"
        ):
            _loader.reject_torch_for_other_accelerator(torch)


def _copy_package_without(tmp_path: Path, *left_out: str) -> Path:
    package = Path(ht.__file__).parent
    shutil.copytree(
        package,
        tmp_path / "habana_frameworks" / "torch",
        ignore=shutil.ignore_patterns("__pycache__", "*.so", "_builds", *left_out),
    )
    for name in ("autoload.py", "autoload_switch.py"):
        shutil.copy(package.parent / name, tmp_path / "habana_frameworks")
    return tmp_path


def test_unbuilt_tree_raises(run_python, tmp_path):
    done = run_python(IMPORT, path=(_copy_package_without(tmp_path, "_build_info.py"),))
    assert "ImportError: habana_frameworks.torch has no compiled core" in done.stderr


@pytest.mark.parametrize("different", ["TORCH_VERSION", "CXX11_ABI", "FORK"])
def test_mismatched_build_raises_before_the_core_is_loaded(run_python, tmp_path, different):
    from habana_frameworks.torch import _build_info

    build = {name: getattr(_build_info, name) for name in ("TORCH_VERSION", "CXX11_ABI", "FORK")}
    build[different] = "1.13.0" if different == "TORCH_VERSION" else not build[different]
    tree = _copy_package_without(tmp_path)
    package = tree / "habana_frameworks" / "torch"
    (package / "_build_info.py").write_text("".join(f"{name} = {value!r}\n" for name, value in build.items()))
    (package / "_C.py").write_text("raise SystemExit('opened')\n")
    done = run_python(IMPORT, path=(tree,))
    assert "ImportError: this build of the hpu backend is for " in done.stderr
    assert "opened" not in done.stderr


def _fake_installed_torch(folder: Path, version: str, library: str) -> types.ModuleType:
    """Return a fake torch module with a version, whose wheel metadata is in `folder`."""
    info = folder / f"torch-{version}.dist-info"
    info.mkdir(parents=True)
    lines = [
        f"torch/lib/libtorch.so,sha256={library},8",
        "torch/version.py,sha256=v,1",
        f"{info.name}/RECORD,,",
    ]
    (info / "RECORD").write_text("\n".join(lines))
    torch = types.ModuleType("torch")
    torch.__file__, torch.__version__ = str(folder / "torch" / "__init__.py"), version
    return torch


def test_a_core_serves_a_fork_like_torch_with_the_same_binaries(tmp_path):
    public = _fake_installed_torch(tmp_path / "public", "2.13.0+cpu", "a")
    repack = _fake_installed_torch(tmp_path / "repack", "2.13.0+git1", "a")
    fork = _fake_installed_torch(tmp_path / "fork", "2.13.0+git1", "b")
    info = types.ModuleType("_build_info")
    info.FORK, info.TORCH_BINARIES = (
        False,
        torch_build.torch_binaries_digest(public.__file__, public.__version__),
    )
    assert [_loader._is_repacked_torch(info, torch) for torch in (repack, fork, public)] == [
        True,
        False,
        False,
    ]
    info.TORCH_BINARIES = None
    assert not _loader._is_repacked_torch(info, repack)
    assert (
        torch_build.torch_binaries_digest(str(tmp_path / "none" / "torch" / "__init__.py"), "2.13.0") is None
    )
    assert torch_build.core_folder_name("2.13.0a0+git1", True, True) == "torch2_13_abi1_fork"
    assert (
        torch_build.core_folder_name("2.6.0", False, False, "PrivateUse1")
        == "torch2_6_abi0_public_privateuse1"
    )


def test_core_in_the_builds_folder_is_chosen(run_python, tmp_path):
    from habana_frameworks.torch import _build_info

    tree = _copy_package_without(tmp_path)
    package = tree / "habana_frameworks" / "torch"
    build_info = (package / "_build_info.py").read_text()
    (package / "_build_info.py").write_text("TORCH_VERSION, CXX11_ABI, FORK = '1.13.0', True, False\n")
    key = torch_build.core_folder_name(_build_info.TORCH_VERSION, _build_info.CXX11_ABI, _build_info.FORK)
    folder_of_core = package / "_builds" / key
    folder_of_core.mkdir(parents=True)
    (folder_of_core / "_build_info.py").write_text(build_info)
    (folder_of_core / "_C.py").write_text("raise SystemExit(f'opened {__name__}')\n")
    assert "opened habana_frameworks.torch._C" in run_python(IMPORT, path=(tree,)).stderr


def test_installed_hardware_bridge_raises(run_python, tmp_path):
    library = tmp_path / "habana_frameworks" / "torch" / "lib" / "libhabana_pytorch2_plugin.so"
    library.parent.mkdir(parents=True)
    library.touch()
    done = run_python(f"import sys; sys.path.append({str(tmp_path)!r}); {IMPORT}")
    message = done.stderr.strip().splitlines()[-1]
    assert message.startswith("ImportError: the Intel Gaudi bridge is installed")
    assert str(library) in message


def test_another_backend_on_torch_hpu_raises(run_python):
    code = f"import types, torch; torch._register_device_module('hpu', types.ModuleType('other')); {IMPORT}"
    assert "ImportError: torch.hpu is already registered by" in run_python(code).stderr
