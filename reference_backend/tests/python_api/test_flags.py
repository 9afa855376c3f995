"""Test flags, switches and the files with autocast lists."""

from __future__ import annotations

from pathlib import Path

import habana_frameworks.torch as ht
import pytest
import torch
from habana_frameworks.torch.internal import bridge_config
from habana_frameworks.torch.internal.settings import environment, flag_page
from habana_frameworks.torch.internal.settings.flag_table import FLAGS

hpu = ht.hpu


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("bool", "true", True),
        ("bool", "False", False),
        ("bool", "1", True),
        ("bool", "0", False),
        ("u32", "12", 12),
        ("u32", "0x10", 16),
        ("u64", "0xFFFFFFFFFFFFFFFF", 2**64 - 1),
        ("i64", "-3", -3),
        ("str", " as it is ", " as it is "),
    ],
)
def test_parsing(kind, text, value):
    assert environment.parse_value("NAME", kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [("bool", "on"), ("bool", "2"), ("u32", "-1"), ("u32", str(2**32)), ("u32", "1.5"), ("i64", "0xG")],
)
def test_error_names_variable_value_and_remedy(kind, text):
    with pytest.raises(ValueError, match=rf"^NAME='{text}' is .*\. Use "):
        environment.parse_value("NAME", kind, text)


def test_every_flag_has_a_getter_and_only_settable_ones_a_setter():
    for name, flag in FLAGS.items():
        assert type(getattr(bridge_config, f"get_{name.lower()}")()) is type(flag.default)
        assert hasattr(bridge_config, f"set_{name.lower()}") is flag.settable
    assert not hasattr(bridge_config, "get_pt_hpu_nonsense")
    with pytest.raises(AttributeError, match="PT_HPU_LAZY_MODE is fixed for the process"):
        bridge_config.set_pt_hpu_lazy_mode(1)


def test_values_are_read_once(output_of):
    code = (
        "import os, habana_frameworks.torch\n"
        "from habana_frameworks.torch.internal import bridge_config as c\n"
        "get = c.get_pt_hpu_enable_refine_dynamic_shapes\n"
        "print(get()); os.environ['PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES'] = '0'; print(get())\n"
        "c.set_pt_hpu_enable_refine_dynamic_shapes(False); print(get())"
    )
    assert output_of(code, PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES="1").split() == ["True", "True", "False"]


def test_env_setting_restores():
    name = "PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES"
    with pytest.raises(ZeroDivisionError), bridge_config.env_setting(name, True):
        hpu.get_dynamic_shape_status() / 0
    with bridge_config.env_setting(name.lower(), 1):
        assert hpu.get_dynamic_shape_status() is True
    assert hpu.get_dynamic_shape_status() is False
    with (
        pytest.raises(AttributeError, match="PT_HPU_LAZY_MODE"),
        bridge_config.env_setting("PT_HPU_LAZY_MODE", 1),
    ):
        pass


def test_dynamic_shape():
    hpu.enable_dynamic_shape()
    assert hpu.get_dynamic_shape_status() is True
    assert bridge_config.get_pt_hpu_enable_refine_dynamic_shapes() is True
    hpu.disable_dynamic_shape()
    assert hpu.get_dynamic_shape_status() is False


def test_optim_output_sif():
    assert bridge_config.get_pt_hpu_optim_dynamic_output_sif() is True
    hpu.disable_optim_output_sif()
    assert bridge_config.get_pt_hpu_optim_dynamic_output_sif() is False
    hpu.enable_optim_output_sif()
    assert bridge_config.get_pt_hpu_optim_dynamic_output_sif() is True


@pytest.mark.parametrize(
    ("enable", "disable", "status"),
    [
        (hpu.enable_inference_mode, hpu.disable_inference_mode, hpu.is_inference_mode_enabled),
        (hpu.enable_matmul3d_2d_reshape, hpu.disable_matmul3d_2d_reshape, hpu.is_matmul3d_2d_reshape_enabled),
    ],
)
def test_switches(enable, disable, status):
    assert status() is False
    enable()
    assert status() is True
    disable()
    assert status() is False


@pytest.mark.parametrize("name", ["INFERENCE_MODE", "MATMUL3D_2D_RESHAPE"])
def test_switches_start_from_the_environment(output_of, name):
    code = f"import torch, habana_frameworks.torch; print(torch.hpu.is_{name.lower()}_enabled())"
    assert output_of(code, **{f"PT_HPU_{name}": "true"}) == "True"


def test_switches_without_effect_can_be_called():
    for switch in (hpu.enable_quantization, hpu.disable_quantization):
        assert switch() is None
    hpu.enable_const_section_serialization("folder", False, True)
    assert hpu.enable_const_section_serialization.__globals__["_const_section_serialization"].path == "folder"
    hpu.disable_const_section_serialization()
    assert hpu.enable_const_section_serialization.__globals__["_const_section_serialization"] is None


def test_sync_debug_mode():
    for mode, status in (
        (True, True),
        (0, False),
        ("error", True),
        ("default", False),
        (2, True),
        (False, False),
    ):
        hpu.set_sync_debug_mode(mode)
        assert hpu.get_sync_debug_mode() is status
        assert bridge_config.get_pt_enable_habana_streamasync() is not status
    for mode in ("sometimes", 3):
        with pytest.raises(RuntimeError, match="is not a synchronisation mode"):
            hpu.set_sync_debug_mode(mode)


@pytest.mark.parametrize(
    "environment", [{"PT_ENABLE_HABANA_STREAMASYNC": "false"}, {"PT_HPU_SYNC_LAUNCH": "1"}]
)
def test_sync_debug_mode_from_the_environment(output_of, environment):
    code = "import torch, habana_frameworks.torch; print(torch.hpu.get_sync_debug_mode())"
    assert output_of(code) == "False"
    assert output_of(code, **environment) == "True"


def test_deterministic_mirrors_torch():
    try:
        with pytest.warns(DeprecationWarning, match="use_deterministic_algorithms"):
            hpu.setDeterministic(True)
        assert torch.are_deterministic_algorithms_enabled()
        with pytest.warns(DeprecationWarning, match="are_deterministic_algorithms_enabled"):
            assert hpu.getDeterministic() is True
    finally:
        torch.use_deterministic_algorithms(False)


def test_recompute_sdp():
    assert hpu.recompute_sdp_enabled() is True
    with hpu.sdp_kernel(enable_recompute=False):
        assert hpu.recompute_sdp_enabled() is False
    assert hpu.recompute_sdp_enabled() is True
    hpu.enable_recompute_sdp(False)
    assert hpu.sdp_kernel_flag.recompute_sdp_enabled() is False
    hpu.enable_recompute_sdp(True)


def test_autocast_wrappers():
    assert hpu.get_autocast_hpu_dtype() is torch.bfloat16
    assert hpu.is_autocast_hpu_enabled() is False
    with torch.autocast("hpu", dtype=torch.float16):
        assert hpu.is_autocast_hpu_enabled() is True
        assert hpu.get_autocast_hpu_dtype() is torch.float16
    hpu.set_autocast_hpu_enabled(True)
    hpu.set_autocast_hpu_dtype(torch.float16)
    assert torch.is_autocast_enabled("hpu")
    assert torch.get_autocast_dtype("hpu") is torch.float16
    hpu.set_autocast_hpu_enabled(False)
    hpu.set_autocast_hpu_dtype(torch.bfloat16)


CASTS = (
    "import torch, habana_frameworks.torch\n"
    "a = torch.ones(2, 2, device='hpu')\n"
    "with torch.autocast('hpu'):\n"
    "    print((a @ a).dtype, (a.exp()).dtype, torch.tanh(a).dtype, torch.exp(a.bfloat16()).dtype)"
)


def test_autocast_lists(output_of):
    assert output_of(CASTS) == "torch.bfloat16 torch.float32 torch.float32 torch.float32"


def test_autocast_list_files_replace_the_lists(output_of, tmp_path):
    (tmp_path / "lower").write_text("tanh\n\n  exp \n")
    files = {"PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST": str(tmp_path / "lower")}
    assert output_of(CASTS, **files) == "torch.float32 torch.bfloat16 torch.bfloat16 torch.bfloat16"
    (tmp_path / "fp32").write_text("matmul\n")
    files = {"PT_HPU_AUTOCAST_FP32_OPS_LIST": str(tmp_path / "fp32")}
    assert output_of(CASTS, **files).endswith("torch.float32 torch.bfloat16")


def test_autocast_list_file_that_cannot_be_read(run_python, tmp_path):
    name = "PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST"
    done = run_python(CASTS, **{name: str(tmp_path / "absent")})
    assert done.stdout.split()[0] == "torch.bfloat16"
    assert f"RuntimeWarning: {name}=" in done.stderr


def test_flags_page_is_current():
    page = Path(__file__).parents[3] / "docs" / "flags.md"
    assert page.read_text() == "\n".join(flag_page.page_lines()) + "\n"


def test_all_flags_of_the_contract_exist():
    # 177 variables of the documented table, PT_HPU_SYNC_LAUNCH and
    # PT_HPU_EMULATE_DISTRIBUTED_SINGLE_RANK.
    assert len(FLAGS) == 179
