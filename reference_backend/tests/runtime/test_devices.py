"""Test device indices, and the modules that a process may select."""

import pytest
import torch


def test_index_rules():
    assert torch.empty(1, device="hpu").device == torch.device("hpu:0")
    with pytest.raises(RuntimeError, match="hpu:99 is not a device of this machine"):
        torch.empty(1, device="hpu:99")
    with pytest.raises(RuntimeError, match="not a device of this machine"):
        torch.ones(1).to("hpu:8")


def test_other_indices_warn_once_and_mean_0(python):
    script = (
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    a = torch.empty(1, device='hpu:3'); b = torch.empty(1, device='hpu:2')\n"
        "print(a.device, b.device, len([w for w in seen if 'means hpu:0' in str(w.message)]))"
    )
    assert python(script).stdout.split() == ["hpu:0", "hpu:0", "1"]


@pytest.mark.parametrize(
    "modules, count", [("0", "1"), ("2,5", "2"), ("0 ,1", "2"), ("", "8"), ("9", "0"), ("a", "0")]
)
def test_visible_modules(python, modules, count):
    assert python("print(torch.hpu.device_count())", HABANA_VISIBLE_MODULES=modules).stdout.strip() == count


def test_no_visible_module_is_one_sentence(python):
    done = python("print(torch.hpu.is_available())\ntorch.empty(1, device='hpu')", HABANA_VISIBLE_MODULES="9")
    assert done.stdout.strip() == "False"
    assert done.stderr.strip().splitlines()[-1].startswith("RuntimeError: no hpu device is visible")
