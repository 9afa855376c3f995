"""Test device indices, and the modules that a process may select."""

import pytest
import torch


def test_index_rules():
    assert torch.empty(1, device="hpu").device == torch.device("hpu:0")
    with pytest.raises(RuntimeError, match="hpu:99 is not a device of this machine"):
        torch.empty(1, device="hpu:99")
    with pytest.raises(RuntimeError, match="not a device of this machine"):
        torch.ones(1).to("hpu:8")


@pytest.mark.parametrize("variable", ["HLS_MODULE_ID", "LOCAL_RANK"])
def test_only_the_module_of_the_process_is_its_device(python, variable):
    script = (
        "print(torch.ones(1, device='hpu:3').device, torch.accelerator.set_device_index(2))\n"
        "for call in (lambda: torch.ones(1, device='hpu:2'), lambda: torch.ones(1).to('hpu:2'),\n"
        "  lambda: torch.zeros(1, device='hpu').to('hpu:2'), lambda: torch.Stream('hpu:2')):\n"
        "    try: print(call())\n"
        "    except RuntimeError as error: print(str(error).partition('. ')[0])"
    )
    refusal = "hpu:2 is not the device of this process"
    assert python(script, **{variable: "3"}).stdout.splitlines() == ["hpu:0 None"] + [refusal] * 4


@pytest.mark.parametrize(
    "modules, count", [("0", "1"), ("2,5", "2"), ("0 ,1", "2"), ("", "8"), ("9", "0"), ("a", "0")]
)
def test_visible_modules(python, modules, count):
    assert python("print(torch.hpu.device_count())", HABANA_VISIBLE_MODULES=modules).stdout.strip() == count


def test_no_visible_module_is_one_sentence(python):
    done = python("print(torch.hpu.is_available())\ntorch.empty(1, device='hpu')", HABANA_VISIBLE_MODULES="9")
    assert done.stdout.strip() == "False"
    assert done.stderr.strip().splitlines()[-1].startswith("RuntimeError: no hpu device is visible")
