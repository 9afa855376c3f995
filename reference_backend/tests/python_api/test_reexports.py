"""Test documented modules that re-export names, and functions that only real hardware supports."""

from __future__ import annotations

import pytest
import torch
from habana_frameworks.torch import _hpex_C
from habana_frameworks.torch.internal import synrec_helper
from habana_frameworks.torch.utils import _debug_C, debug
from habana_frameworks.torch.utils import experimental as htexp


def test_bridge_extensions_re_export_names_of_the_package() -> None:
    assert _debug_C._get_fallback_op_count() == debug._get_fallback_op_count()
    assert _hpex_C.rms_norm is torch.ops.hpu.rms_norm
    with pytest.raises(AttributeError, match="but not 'nothing'"):
        _ = _debug_C.nothing
    with pytest.raises(AttributeError, match="but not 'nothing'"):
        _ = _hpex_C.nothing
    with pytest.raises(AttributeError, match="graph_dumps, which writes the graphs of this device"):
        _ = synrec_helper.record


def test_hardware_only_functions_raise() -> None:
    for call in (
        lambda: htexp._record_params(torch.nn.Linear(2, 2)),
        lambda: htexp._reset_device_memory(),
        lambda: htexp._set_profiler_tracer_memory(0),
    ):
        with pytest.raises(NotImplementedError, match=r"this device does not (have|support)"):
            call()


def test_packages_of_other_wheels_re_export_names_of_the_package() -> None:
    import habana_dataloader
    import habana_torch_dataloader
    import intel_transformer_engine
    import intel_transformer_engine.recipe
    from habana_frameworks.torch.hpex.experimental import transformer_engine

    assert habana_torch_dataloader.HabanaDataLoader is habana_dataloader.HabanaDataLoader
    assert intel_transformer_engine.Linear is transformer_engine.Linear
    assert intel_transformer_engine.recipe is transformer_engine.recipe
    assert intel_transformer_engine.recipe.Format is transformer_engine.recipe.Format
