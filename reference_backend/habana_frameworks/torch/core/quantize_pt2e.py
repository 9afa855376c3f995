"""torchao's pt2e quantization, also for models that `torch.export` cannot export as one program.

`export` returns the exported program of a model. If `torch.export` fails, `export` returns a
`PartitionedModel`, whose parts between graph breaks are exported while the model runs. `prepare_pt2e` and
`convert_pt2e` accept both results.

`convert_pt2e` writes the scales of `habana_quantizer` to the file ``PT2E_QUANT_SCALE_DUMP_PATH``.
`prepare_pt2e` reads scales from the file ``PT2E_QUANT_SCALE_LOAD_PATH``, so that a model does not need to be
calibrated again. ``USE_FX_GRAPH_PATTERN_MATCHING`` and ``USE_FX_GRAPH_FREEZING`` configure the hardware's
compiler and have no effect here.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

try:
    from torchao.quantization.pt2e import quantize_pt2e as pt2e
except ImportError as error:
    raise ImportError(
        "habana_frameworks.torch.core.quantize_pt2e needs torchao: pip install torchao"
    ) from error

from .quantizer import AbsMaxObserver

__all__ = ["PartitionedModel", "convert_pt2e", "export", "prepare_pt2e"]

_NO_LIMIT = 1 << 30
_LOAD, _DUMP = "PT2E_QUANT_SCALE_LOAD_PATH", "PT2E_QUANT_SCALE_DUMP_PATH"


class PartitionedModel(nn.Module):
    """A model with one exported program for each graph that Dynamo traces, instead of one for the model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList()
        #: Exported parts, by code, input shapes and dtypes. If Dynamo traces a graph again, because a number
        #: that is computed between two graphs has changed, the existing part is reused.
        self._known: dict[Any, _ProgramModule] = {}
        self._quantizer: Any = None
        self._is_converted = False
        self._compiled = torch.compile(model, backend=self._export_graph, dynamic=False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model. Each graph that Dynamo traces runs as its exported program."""
        # Dynamo has a limit of recompilations. Above the limit, it would silently run the original model,
        # without quantization.
        limits = {"recompile_limit": _NO_LIMIT, "accumulated_recompile_limit": _NO_LIMIT}
        with torch._dynamo.config.patch(limits), torch.no_grad():
            return self._compiled(*args, **kwargs)

    def _export_graph(self, graph: fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        key = (graph.code, tuple((tuple(tensor.shape), tensor.dtype) for tensor in inputs))
        if (existing_part := self._known.get(key)) is not None:
            return lambda *values: existing_part(*values)
        if self._is_converted:
            raise RuntimeError(
                "the converted model has no program for inputs with these shapes and dtypes. Calibrate it "
                "with such inputs."
            )
        part = _ProgramModule(torch.export.export(graph, tuple(inputs)).module())
        if self._quantizer is not None:
            part.program = _prepare_with_saved_scales(
                part.program, self._quantizer, f"part{len(self.parts)}."
            )
        self.parts.append(part)
        self._known[key] = part
        return lambda *values: part(*values)


class _ProgramModule(nn.Module):
    def __init__(self, program: nn.Module) -> None:
        super().__init__()
        self.program = program

    def forward(self, *values: torch.Tensor) -> Any:
        return self.program(*values)


def export(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> nn.Module:
    """Return the exported program of a model, or a `PartitionedModel` if the model has graph breaks."""
    try:
        return torch.export.export(model, args, kwargs).module()
    except (torch._dynamo.exc.Unsupported, torch._dynamo.exc.UserError, GuardOnDataDependentSymNode):
        return PartitionedModel(model)


def prepare_pt2e(model: nn.Module, quantizer: Any) -> nn.Module:
    """Return the model with an observer for each value that the quantizer rounds.

    Args:
        model: the result of `export`. A `PartitionedModel` must not have run before.
        quantizer: a `habana_quantizer`, or another quantizer of torchao.

    Raises:
        RuntimeError: a `PartitionedModel` has already run, or a scale is missing in the file of saved scales.
    """
    if not isinstance(model, PartitionedModel):
        return _prepare_with_saved_scales(model, quantizer, "")
    if len(model.parts):
        raise RuntimeError(
            "prepare_pt2e was called after the model had run. Export the model again, and call prepare_pt2e "
            "before the first run."
        )
    model._quantizer = quantizer
    return model


def convert_pt2e(model: nn.Module, **options: Any) -> nn.Module:
    """Return the model with quantization in place of observers. ``options`` are passed to torchao."""
    partitioned = model if isinstance(model, PartitionedModel) else None
    parts = [(f"part{i}.", part) for i, part in enumerate(getattr(model, "parts", ()))]
    if path := os.environ.get(_DUMP):
        prefixed = (
            [("", model)] if partitioned is None else [(prefix, part.program) for prefix, part in parts]
        )
        scales = {
            name: float(part.amax) for prefix, of in prefixed for name, part in _named_observers(of, prefix)
        }
        Path(path).write_text(json.dumps(scales, indent=1) + "\n")
    if partitioned is None:
        converted: nn.Module = pt2e.convert_pt2e(model, **options)
        return converted
    for _, part in parts:
        part.program = pt2e.convert_pt2e(part.program, **options)
    partitioned._is_converted = True
    return partitioned


def _prepare_with_saved_scales(program: nn.Module, quantizer: Any, prefix: str) -> nn.Module:
    prepared: nn.Module = pt2e.prepare_pt2e(program, quantizer)
    if path := os.environ.get(_LOAD):
        scales = json.loads(Path(path).read_text())
        for name, observer in _named_observers(prepared, prefix):
            if name not in scales:
                raise RuntimeError(
                    f"{_LOAD}={path} has no scale of {name}. Unset {_LOAD}, calibrate the model, and write "
                    f"the file with {_DUMP}."
                )
            observer.amax.fill_(scales[name])
    return prepared


def _named_observers(program: nn.Module, prefix: str) -> list[tuple[str, AbsMaxObserver]]:
    modules = program.named_modules()
    return [(prefix + name, module) for name, module in modules if isinstance(module, AbsMaxObserver)]
