"""Test how devices are counted, selected and described."""

from __future__ import annotations

import os
import sys
import types

import habana_frameworks.torch as ht
import pytest
import torch

hpu = ht.hpu

USE = "import torch, habana_frameworks.torch, os; hpu = torch.hpu\n"


def test_a_node_has_eight_modules_and_a_process_one_device():
    assert (hpu.device_count(), hpu.current_device(), hpu.is_available()) == (8, 0, True)
    assert torch.accelerator.device_count() == 8
    assert torch.accelerator.current_device_index() == 0


@pytest.mark.parametrize(("visible", "count"), [("3", 1), ("7,6,5,4", 4), ("2,2", 1), ("all", 8)])
def test_visible_modules_limit_the_count(output_of, visible, count):
    code = USE + "from habana_frameworks.torch.internal.settings.visible_modules import visible_module_ids\n"
    code += "print(hpu.device_count(), len(visible_module_ids()), torch.ones(1, device='hpu').device)"
    assert output_of(code, HABANA_VISIBLE_MODULES=visible) == f"{count} {count} hpu:0"


def test_no_module_means_no_device_and_no_exception(run_python):
    done = run_python(
        USE + "print(hpu.is_available(), repr(hpu.get_device_name()))", HABANA_VISIBLE_MODULES="9"
    )
    assert done.stdout.strip() == "False ''", done.stderr
    assert "UserWarning: no hpu device is visible" in done.stderr


@pytest.fixture
def environment(monkeypatch):
    """Return a function that sets, for this test only, the environment variables that select a module."""

    def set_module_variables(visible: str = "", module: str = "") -> None:
        monkeypatch.setenv("HABANA_VISIBLE_MODULES", visible)
        monkeypatch.setenv("HLS_MODULE_ID", module)

    set_module_variables()
    return set_module_variables


@pytest.fixture
def unused_device(monkeypatch):
    """Make the backend report that this process has not used the device."""
    monkeypatch.setattr(sys.modules["habana_frameworks.torch.hpu.devices"], "is_initialized", lambda: False)


@pytest.mark.parametrize("device", [3, "hpu:3", torch.device("hpu", 3)])
def test_set_device_writes_the_module(environment, unused_device, device):
    hpu.set_device(device)
    assert os.environ["HLS_MODULE_ID"] == "3"
    assert hpu.current_device() == 0


def test_set_device_counts_in_visible_modules(environment, unused_device):
    environment(visible="2,5,6")
    for _ in range(2):
        hpu.set_device(1)
        assert os.environ["HLS_MODULE_ID"] == "5"


@pytest.mark.parametrize("device", [None, "hpu", "hpu:0", torch.device("hpu"), torch.device("hpu", 0), 0])
@pytest.mark.parametrize(("visible", "module"), [("", "0"), ("5,6", "5")])
def test_set_device_accepts_every_name_of_the_first_module(environment, device, visible, module):
    environment(visible)
    for _ in range(2):
        hpu.set_device(device)
        assert os.environ["HLS_MODULE_ID"] == module


@pytest.mark.parametrize(
    ("index", "visible", "module", "way_out"),
    [
        (8, "", "", "use 0 to 7"),
        (1, "4", "", "use 0 to 0"),
        (-1, "", "", "use 0 or 'hpu'"),
        (-1, "", "3", "use 0 or 'hpu'"),
    ],
)
def test_set_device_rejects_wrong_indices(environment, index, visible, module, way_out):
    environment(visible, module)
    with pytest.raises(AssertionError, match=f"^Invalid device id {index}: .*{way_out}$"):
        hpu.set_device(index)
    assert os.environ["HLS_MODULE_ID"] == module


def test_set_device_selects_the_module_before_the_first_use_only(output_of):
    code = USE + (
        "hpu.set_device(1); print(torch.ones(1, device='hpu:1').device, os.environ['HLS_MODULE_ID'])\n"
        "del os.environ['HLS_MODULE_ID']; hpu.set_device(0); del os.environ['HLS_MODULE_ID']\n"
        "try: hpu.set_device(2)\n"
        "except AssertionError as error: print(error)"
    )
    first, second = output_of(code).splitlines()
    assert first == "hpu:0 1"
    assert second.startswith(
        "Invalid device id 2: this process already uses module 0. Call set_device before"
    )


def test_an_index_into_the_visible_modules_is_the_own_device(output_of):
    code = USE + "hpu.set_device(1); print(torch.ones(1, device='hpu:1').device, hpu.device(1).idx)"
    assert output_of(code, HABANA_VISIBLE_MODULES="4,5") == "hpu:0 1"


def test_set_device_in_a_smaller_node(environment, monkeypatch):
    monkeypatch.setattr(sys.modules["habana_frameworks.torch.hpu.devices"], "_count", 4)
    with pytest.raises(AssertionError, match=r"^Invalid device id 1: the node has fewer than 8 modules"):
        hpu.set_device(1)
    hpu.set_device(0)


@pytest.mark.parametrize("visible", ["", "4,5"])
@pytest.mark.parametrize("device", [0, 1, 5, 11, "hpu:0", "hpu", None, torch.device("hpu", 3)])
def test_every_index_selects_the_module_of_the_process(environment, visible, device):
    """Programs pass ``hpu:0`` or their rank.

    Both select the device (Gaudi module) that the launcher assigned to the process.
    """
    environment(visible, module="5")
    hpu.set_device(device)
    assert os.environ["HLS_MODULE_ID"] == "5"
    assert hpu.current_device() == 0


@pytest.mark.parametrize("visible", ["9", "1,x", "-1", "1,,2"])
def test_unknown_modules_raise(environment, visible):
    environment(visible)
    with pytest.raises(ValueError, match=f"^HABANA_VISIBLE_MODULES='{visible}' is not a list of modules"):
        hpu.set_device(0)


@pytest.mark.parametrize("device", ["cpu", torch.device("cuda", 0), 1.5, "card 1", [0]])
def test_set_device_error_names_the_value_and_the_remedy(environment, device):
    with pytest.raises(ValueError, match="Expected a hpu device") as caught:
        hpu.set_device(device)
    expected = f"Expected a hpu device, but got: {device!r}; use an index, 'hpu', 'hpu:0' or None"
    assert str(caught.value) == expected


def test_device_index():
    index = hpu._utils._get_device_index
    assert [index(0), index("hpu:2"), index(torch.device("hpu", 1))] == [0, 2, 1]
    assert index(None, optional=True) == index("hpu", optional=True) == 0
    assert index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match=r"^Expected a hpu device, but got: cpu"):
        index("cpu")
    with pytest.raises(ValueError, match="Expected a hpu or cpu device, but got: cuda:0"):
        index("cuda:0", allow_cpu=True)
    with pytest.raises(ValueError, match="with an index"):
        index("hpu")


@pytest.mark.parametrize("device", [None, 0, -1, "hpu", "hpu:0"])
def test_device_context_accepts_the_device_of_the_process(device):
    with hpu.device(device):
        assert hpu.current_device() == 0


def test_device_context_rejects_another_module(environment):
    environment(module="2")
    with hpu.device(2):
        pass
    with pytest.raises(AssertionError, match="Invalid device id 3"):
        hpu.device(3)
    environment()
    with pytest.raises(AssertionError, match="Invalid device id 2"):
        hpu.device(2)


def test_device_of():
    for tensor in (torch.ones(1), torch.ones(1, device="hpu")):
        with hpu.device_of(tensor) as context:
            assert context.idx == (0 if tensor.is_hpu else -1)


def test_name_and_generation(output_of):
    code = USE + (
        "from habana_frameworks.torch.utils import experimental as e\n"
        "print(hpu.get_device_name(), hpu.get_arch_list(), e._get_device_type().name, e._is_fp16_supported())"
    )
    assert output_of(code) == "GAUDI2 ['GAUDI2'] synDeviceGaudi2 True"
    first = output_of(code, HPU_REFERENCE_DEVICE_NAME="gaudi")
    assert first == "GAUDI ['GAUDI'] synDeviceGaudi False"


def test_unknown_device_name_raises(monkeypatch):
    monkeypatch.setenv("HPU_REFERENCE_DEVICE_NAME", "GAUDI9")
    with pytest.raises(
        ValueError, match=r"HPU_REFERENCE_DEVICE_NAME='GAUDI9' .* Use one of GAUDI, GAUDI2, GAUDI3"
    ):
        hpu.get_device_name()


@pytest.mark.parametrize(
    "call",
    [
        hpu.get_device_name,
        hpu.get_device_capability,
        hpu.get_device_properties,
        lambda device: hpu.can_device_access_peer(0, device),
        hpu.memory_usage,
        hpu.utilization,
    ],
)
@pytest.mark.parametrize("device", [8, -1, "hpu:9"])
def test_ids_out_of_range_raise(call, device):
    with pytest.raises(AssertionError, match="Invalid device id"):
        call(device)


def test_descriptions_have_the_form_of_the_contract():
    assert isinstance(hpu.get_device_capability(), str)
    properties = hpu.get_device_properties("hpu:3")
    assert properties[0] == "("
    assert properties[-1] == ")"
    fields = dict(field.split("=") for field in properties[1:-1].split(", "))
    assert list(fields) == [
        "sramBaseAddress",
        "dramBaseAddress",
        "sramSize",
        "dramSize",
        "tpcEnabledMask",
        "dramEnabled",
        "fd",
        "device_id",
        "device_type",
    ]
    assert fields["device_id"] == "3"
    assert int(fields["dramSize"]) == hpu.memory_stats()["Limit"]
    assert hpu.get_gencode_flags() == ""
    assert hpu.is_bf16_supported() is True
    assert hpu.can_device_access_peer(0, 0)
    assert not hpu.can_device_access_peer(0, 1)


def test_utilization_needs_the_management_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyhlml", None)
    with pytest.raises(ImportError, match="pyhlml is not installed"):
        hpu.utilization()
    with pytest.raises(ImportError, match="Install habana-pyhlml"):
        hpu.memory_usage()


def test_utilization_calls_the_management_library(monkeypatch):
    calls = []
    library = types.ModuleType("pyhlml")
    library.hlmlInit = lambda: calls.append("init")
    library.hlmlShutdown = lambda: calls.append("shutdown")
    library.hlmlDeviceGetHandleByIndex = lambda index: calls.append(index)
    library.hlmlDeviceGetUtilizationRates = lambda handle: 42
    library.hlmlDeviceGetMemoryInfo = lambda handle: types.SimpleNamespace(used=1, total=4)
    monkeypatch.setitem(sys.modules, "pyhlml", library)
    monkeypatch.delenv("HLS_MODULE_ID", raising=False)
    assert hpu.utilization() == 42
    assert hpu.memory_usage("hpu:2") == 25
    assert calls == ["init", 0, "shutdown", "init", 2, "shutdown"]


def test_initialisation_happens_once_and_sets_the_checkpoint_device(output_of):
    code = USE + (
        "from torch.utils.checkpoint import DefaultDeviceType as d; d.set_device_type('cuda')\n"
        "before = hpu.is_initialized(); hpu.init()\n"
        "print(before, hpu.is_initialized(), d.get_device_type())\n"
        "d.set_device_type('cpu'); hpu.init(); print(d.get_device_type())"
    )
    assert output_of(code).split() == ["False", "True", "hpu", "cpu"]


def test_first_tensor_initialises(output_of):
    code = USE + "a = hpu.is_initialized(); torch.ones(1).to('hpu'); print(a, hpu.is_initialized())"
    assert output_of(code) == "False True"


def test_synchronize_accepts_only_the_device_of_the_process():
    torch.ones(3, device="hpu")
    for device in (None, 0, "hpu", "hpu:0"):
        hpu.synchronize(device)
    with pytest.raises(AssertionError, match="Invalid device id 5"):
        hpu.synchronize(5)


def test_deprecated_shim():
    with pytest.warns(DeprecationWarning, match=r"use torch\.hpu"):
        import torch_hpu
    assert torch_hpu.is_available is hpu.is_available
    assert torch_hpu.device_count is hpu.device_count
    assert torch_hpu.get_device_name is hpu.get_device_name
