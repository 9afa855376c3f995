"""Test the packages core, utils and dynamo, legacy tensor types, and the metadata of habana-torch-plugin."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
from pathlib import Path
from typing import Any

import habana_frameworks.torch as ht
import habana_frameworks.torch.core as htcore
import pytest
import torch
from habana_frameworks.torch.utils import debug, experimental, internal, lib_utils, library_loader

hpu = ht.hpu


def test_steps_are_no_ops_in_eager():
    called = []
    assert htcore.mark_step() is None
    assert htcore.mark_step("hpu", sync=True) is None
    assert htcore.iter_mark_step() is None
    assert htcore.add_step_closure(called.append, (1,)) is None
    assert htcore.step_closure._mark_step_if_lazy() is None
    assert called == []
    assert htcore.is_lazy() is False
    assert htcore.htdebug is debug
    assert htcore.htexp is experimental


def test_lazy_only(caplog):
    calls = []
    with caplog.at_level(logging.WARNING):
        function = internal.lazy_only(lambda: calls.append(1))
    assert "lazy mode only" in caplog.text
    assert function() is None
    assert calls == []


def test_timer():
    with internal.Timer() as timer:
        pass
    assert 0 < timer.elapsed < 60


def _conv_bn_model() -> torch.nn.Sequential:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU())
    model[1].running_mean.normal_()
    return model


def test_inference_environment_folds_batch_norms():
    model = _conv_bn_model().eval()
    image = torch.rand(1, 2, 5, 5)
    folded = htcore.hpu_set_env(model)
    assert hpu.is_inference_mode_enabled()
    assert hpu.is_matmul3d_2d_reshape_enabled()
    assert not any(isinstance(part, torch.nn.BatchNorm2d) for part in folded.modules())
    torch.testing.assert_close(folded(image), model(image))
    htcore.hpu_reset_env()
    assert not hpu.is_inference_mode_enabled()
    assert not hpu.is_matmul3d_2d_reshape_enabled()


@pytest.mark.parametrize(
    ("model", "reason"),
    [(_conv_bn_model(), "training mode"), (_conv_bn_model().eval().to("hpu"), "the model is on hpu:0")],
    ids=["training", "on hpu"],
)
def test_models_that_cannot_be_folded_are_returned(capsys, model, reason):
    assert htcore.hpu_inference_set_env(model) is model
    assert reason in capsys.readouterr().out
    htcore.hpu_inference_reset_env()


def test_untraceable_model_is_returned(capsys):
    class Branching(torch.nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    model = Branching().eval()
    assert htcore.hpu_set_inference_env(model) is model
    assert "cannot be traced" in capsys.readouterr().out
    htcore.hpu_teardown_inference_env()


def test_initialize_marks_constants():
    model = _conv_bn_model()
    with pytest.raises(RuntimeError, match=r"0.weight is on cpu"):
        htcore.hpu_initialize(model)
    model.to("hpu")
    with pytest.raises(AssertionError, match=r"0.weight is not marked"):
        htcore.quantization._check_params_as_const(model)
    model.register_buffer("scale_input", torch.ones(1, device="hpu"))
    htcore.hpu_initialize(model, mark_only_scales_as_const=True)
    with pytest.raises(AssertionError, match=r"0.weight is not marked"):
        htcore.quantization._check_params_as_const(model)
    hpu.set_mark_non_scale_const(False)
    try:
        htcore.hpu_initialize(model)
        with pytest.raises(AssertionError, match=r"0.weight is not marked"):
            htcore.quantization._check_params_as_const(model)
    finally:
        hpu.set_mark_non_scale_const(True)
    htcore.hpu_inference_initialize(model)
    htcore.quantization._check_params_as_const(model)


def test_library_loader():
    assert library_loader.is_habana_available() is True
    assert library_loader.load_habana_module() is None


def test_library_folders():
    assert list(Path(lib_utils.get_lib_dir()).glob("_C*.so"))
    assert lib_utils.get_include_dir().startswith(lib_utils.get_lib_dir())


def test_experimental():
    tensor = torch.ones(4, device="hpu")
    assert experimental._data_ptr(tensor) == tensor.data_ptr()
    assert experimental._get_device_type() == experimental.synDeviceType.synDeviceGaudi2
    assert experimental.hpu is hpu
    assert experimental._compute_stream() == 0


def test_debug_views():
    tensor = torch.arange(4.0, device="hpu")
    view = debug._host_view(tensor)
    assert view.device.type == "cpu"
    view[0] = 7
    assert tensor[0].item() == 7
    table = debug._kernel_table()
    assert all(len(row) == 3 for row in table)
    assert any(operator == "aten::add.out" for _, operator, _ in table)


def test_fallbacks_are_counted():
    debug._reset_fallback_op_count()
    torch.ones(2, device="hpu").add(1)
    assert debug._get_fallback_op_count() == {}


def test_memory_limit(output_of):
    code = (
        "import torch, habana_frameworks.torch as ht\n"
        "ht.utils.debug._set_memory_limit(2**20)\n"
        "try: torch.empty(2**21, dtype=torch.uint8, device='hpu')\n"
        "except torch.OutOfMemoryError: print(torch.hpu.memory_stats()['Limit'])"
    )
    assert output_of(code) == str(2**20)


def test_dynamo_interface():
    from torch._dynamo.device_interface import get_interface_for_device

    interface = get_interface_for_device("hpu")
    assert interface is get_interface_for_device("hpu:0")
    assert (
        interface is importlib.import_module("habana_frameworks.torch.dynamo.device_interface").HpuInterface
    )
    assert (interface.current_device(), interface.device_count(), interface.is_available()) == (0, 8, True)
    assert (
        interface.exchange_device(0) == interface.maybe_exchange_device(0) == interface.get_raw_stream(0) == 0
    )
    assert interface.is_bf16_supported(including_emulation=True)
    assert interface.is_dtype_supported(torch.float64)
    assert issubclass(interface.Stream, torch.Stream)
    assert issubclass(interface.Event, torch.Event)
    stream = hpu.Stream()
    interface._set_stream_by_id(stream.stream_id, stream.device_index, stream.device_type)
    assert interface.current_stream() == stream
    interface.set_stream(hpu.default_stream())
    assert interface.get_compute_capability() == hpu.get_device_capability()
    assert interface.Worker.get_device_properties(0) == hpu.get_device_properties(0)


TYPES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}


@pytest.mark.parametrize(("name", "dtype"), TYPES.items())
def test_legacy_types(name, dtype):
    legacy = getattr(hpu, name)
    legacy_tensor = legacy([[0, 1], [1, 0]])
    assert (legacy_tensor.dtype, legacy_tensor.device, legacy_tensor.tolist()) == (
        dtype,
        torch.device("hpu:0"),
        [[0, 1], [1, 0]],
    )
    assert legacy_tensor.type() == f"torch.hpu.{name}"
    assert isinstance(legacy_tensor, legacy)
    assert not isinstance(legacy_tensor.cpu(), legacy)
    assert not isinstance(legacy_tensor.to(torch.complex64), legacy)
    assert legacy(2, 3).shape == legacy(torch.Size([2, 3])).shape == (2, 3)
    assert legacy().shape == (0,)
    assert legacy(legacy_tensor).data_ptr() == legacy_tensor.data_ptr()
    assert legacy(2, dtype=dtype, device="hpu").shape == (2,)


def test_legacy_types_reject_invalid_arguments():
    with pytest.raises(RuntimeError, match="Omit dtype"):
        hpu.FloatTensor(2, dtype=torch.int32)
    with pytest.raises(RuntimeError, match="Omit device"):
        hpu.FloatTensor(2, device="cpu")
    with pytest.raises(RuntimeError, match="Convert it"):
        hpu.FloatTensor(torch.ones(2))
    with pytest.raises(TypeError, match="accepts sizes"):
        hpu.FloatTensor([1], [2])


def _gaudi_plugin_metadata() -> Any:
    spec = importlib.util.spec_from_file_location(
        "gaudi_plugin_metadata", Path(__file__).parents[2] / "gaudi_plugin_metadata.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_companion_distribution_has_the_version_of_the_device(tmp_path):
    _gaudi_plugin_metadata().write_metadata(tmp_path, ht.__version__, [])
    (distribution,) = importlib.metadata.distributions(name="habana-torch-plugin", path=[str(tmp_path)])
    assert distribution.version == f"{ht.__version__}+reference"
    assert distribution.metadata["Classifier"] == "Private :: Do Not Upload"


@pytest.mark.parametrize("form", ["on disk", "recorded"])
def test_companion_distribution_is_not_installed_next_to_the_bridge(tmp_path, form):
    environment = tmp_path / "environment"
    library = "habana_frameworks/torch/lib/libhabana_pytorch2_plugin.upstream.so"
    if form == "on disk":
        path = environment / library
        path.parent.mkdir(parents=True)
        path.touch()
    else:
        metadata = environment / "habana_torch_plugin-1.19.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: habana-torch-plugin\nVersion: 1.19.0\n"
        )
        (metadata / "RECORD").write_text(f"{library},,\n")
    _gaudi_plugin_metadata().write_metadata(tmp_path / "wheel", ht.__version__, [str(environment)])
    assert not (tmp_path / "wheel").exists()


def test_public_modules_are_attributes_of_the_package(output_of):
    paths = (
        "internal.bridge_config",
        "internal.fuse_conv_bn",
        "utils.debug.graph_dumps",
        "utils.event_dispatcher",
        "utils.experimental",
        "utils.internal",
    )
    code = (
        f"import habana_frameworks.torch as ht, operator\nprint(*operator.attrgetter(*{paths})(ht), sep='|')"
    )
    modules = output_of(code).split("|")
    assert len(modules) == len(paths) and all(line.startswith("<module ") for line in modules)


def test_moved_modules_are_the_same_under_their_public_paths():
    from habana_frameworks.torch.dynamo.compile_backend import context, operator_by_operator, recipes
    from habana_frameworks.torch.dynamo.compile_backend._passes import utils
    from habana_frameworks.torch.hpu import metric_kinds, metrics
    from habana_frameworks.torch.internal import events
    from habana_frameworks.torch.utils import event_dispatcher

    assert utils.OptimizerContext is context.OptimizerContext
    assert recipes.executed_graphs is operator_by_operator.executed_graphs
    assert metrics.Metric is metric_kinds.Metric
    assert event_dispatcher.EventDispatcher is events.EventDispatcher
