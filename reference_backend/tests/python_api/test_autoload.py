"""Test the entry point in the group ``torch.backends``, by which `import torch` loads a backend."""

from __future__ import annotations

import warnings

import habana_frameworks.torch  # noqa: F401  # fails if the core is missing
import pytest
import torch
from habana_frameworks import autoload
from habana_frameworks.torch.internal.settings.mode import is_fork_like

IS_LOADED = "import torch; print(hasattr(torch, 'hpu'))"


@pytest.mark.nightly("each case starts a process and reads one variable", every=3)
@pytest.mark.parametrize(
    ("environment", "loaded"),
    [
        ({}, True),
        ({"PT_HPU_LAZY_MODE": "0"}, True),
        ({"PT_HPU_AUTOLOAD": "0"}, False),
        ({"PT_HPU_AUTOLOAD": "1"}, True),
        ({"PT_HPU_AUTOLOAD": ""}, True),
        ({"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, False),
    ],
)
def test_variables_that_control_autoload(run_python, entry_point_arguments, environment, loaded):
    done = run_python(IS_LOADED, **{**entry_point_arguments, **environment})
    assert done.stdout.strip() == str(loaded)
    assert done.stderr == ""


def test_lazy_mode_is_autoloaded_or_refused_in_one_sentence(run_python, entry_point_arguments):
    done = run_python(
        "import torch\nif hasattr(torch, 'hpu'): print(torch.ones(2, device='hpu').sum().item())",
        **entry_point_arguments,
        PT_HPU_LAZY_MODE="1",
    )
    assert done.returncode == 0
    if is_fork_like(torch.__version__):
        assert (done.stdout.strip(), done.stderr) == ("2.0", "")
    else:
        assert done.stdout == ""
        assert "did not load the hpu device: PT_HPU_LAZY_MODE=1 needs a fork-like build" in done.stderr
        assert done.stderr.count("hpu device") == 1


def test_tensors_work_without_any_import_but_torch(output_of, entry_point_arguments):
    assert (
        output_of(
            "import torch; print((torch.ones(2, device='hpu') + 1).sum().item())", **entry_point_arguments
        )
        == "4.0"
    )


def test_explicit_import_first_does_not_recurse(output_of, entry_point_arguments):
    code = "import habana_frameworks.torch, torch; print(torch.hpu is habana_frameworks.torch.hpu)"
    assert output_of(code, **entry_point_arguments) == "True"
    code = "import habana_frameworks.torch.hpu as hpu, torch; print(torch.hpu is hpu)"
    assert output_of(code, **entry_point_arguments) == "True"


def test_entry_point_does_nothing_if_the_package_is_loaded(monkeypatch):
    monkeypatch.setenv("PT_HPU_AUTOLOAD", "on")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vars(autoload)["__autoload"]()
    assert autoload.is_loaded
    assert caught == []


@pytest.mark.nightly("each case starts a process", every=2)
@pytest.mark.parametrize("environment", [{"PT_HPU_AUTOLOAD": "on"}, {"PT_HPU_LAZY_MODE": "banana"}])
@pytest.mark.parametrize("options", [(), ("-W", "error")])
def test_import_torch_warns_if_the_backend_cannot_be_loaded(
    run_python, entry_point_arguments, environment, options
):
    done = run_python(IS_LOADED, options=options, **{**entry_point_arguments, **environment})
    assert done.stdout.strip() == "False", done.stderr
    (name, value), *_ = environment.items()
    assert f"RuntimeWarning: import torch did not load the hpu device: {name}={value!r}" in done.stderr


def test_import_after_a_failed_autoload_works_without_the_cause(output_of, entry_point_arguments):
    code = (
        "import os, torch\n"
        "del os.environ['PT_HPU_LAZY_MODE']\n"
        "import habana_frameworks.torch\n"
        "print(torch.ones(1, device='hpu').device)"
    )
    assert output_of(code, **entry_point_arguments, PT_HPU_LAZY_MODE="9") == "hpu:0"


def test_import_after_a_failed_autoload_names_the_cause(run_python, entry_point_arguments):
    done = run_python("import torch, habana_frameworks.torch", **entry_point_arguments, PT_HPU_LAZY_MODE="9")
    assert done.stderr.strip().splitlines()[-1].startswith("ValueError: PT_HPU_LAZY_MODE='9' is not a mode")
