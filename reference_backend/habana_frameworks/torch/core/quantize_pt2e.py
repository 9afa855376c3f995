"""torchao's pt2e flow, for models that `torch.export` takes whole and for those that break into several.

`export` makes a program of a model. If `torch.export` cannot, it makes a `PartitionedModel`, whose parts
between the breaks are programs that come about as the model runs: `prepare_pt2e` and `convert_pt2e` take
both.

Scales of `habana_quantizer`, for activations and weights, are written at conversion to the file that
``PT2E_QUANT_SCALE_DUMP_PATH`` names, and read at preparation from that of ``PT2E_QUANT_SCALE_LOAD_PATH``, so
that a model need not be calibrated again. ``USE_FX_GRAPH_PATTERN_MATCHING`` and ``USE_FX_GRAPH_FREEZING`` say
how the hardware's compiler treats the result; here they change nothing.
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
    """A model that cannot be one program, with a program for each of the graphs that Dynamo makes of it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList()
        #: Parts by what they compute: Dynamo makes a graph anew if a number between two has changed.
        self._known: dict[Any, _Part] = {}
        self._quantizer: Any = None
        self._is_converted = False
        self._compiled = torch.compile(model, backend=self._part_of, dynamic=False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model with its programs."""
        # Beyond the limit Dynamo would run the model as it is, with nothing rounded and no word.
        limits = {"recompile_limit": _NO_LIMIT, "accumulated_recompile_limit": _NO_LIMIT}
        with torch._dynamo.config.patch(limits), torch.no_grad():
            return self._compiled(*args, **kwargs)

    def _part_of(self, graph: fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        key = (graph.code, tuple((tuple(one.shape), one.dtype) for one in inputs))
        if (known := self._known.get(key)) is not None:
            return lambda *values: known(*values)
        if self._is_converted:
            raise RuntimeError(
                "the converted model has no program for inputs of this form: calibrate it with such inputs"
            )
        part = _Part(torch.export.export(graph, tuple(inputs)).module())
        if self._quantizer is not None:
            part.program = _prepared(part.program, self._quantizer, f"part{len(self.parts)}.")
        self.parts.append(part)
        self._known[key] = part
        return lambda *values: part(*values)


class _Part(nn.Module):
    def __init__(self, program: fx.GraphModule) -> None:
        super().__init__()
        self.program = program

    def forward(self, *values: torch.Tensor) -> Any:
        return self.program(*values)


def export(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> nn.Module:
    """Return the program of a model for such arguments; a `PartitionedModel` if it breaks into several."""
    try:
        return torch.export.export(model, args, kwargs).module()
    except (torch._dynamo.exc.Unsupported, torch._dynamo.exc.UserError, GuardOnDataDependentSymNode):
        return PartitionedModel(model)


def prepare_pt2e(model: nn.Module, quantizer: Any) -> nn.Module:
    """Put observers at the values that a quantizer rounds.

    Args:
        model: what `export` returned, before its first call if it is a `PartitionedModel`.
        quantizer: a `habana_quantizer`, or another of torchao's.

    Raises:
        RuntimeError: a `PartitionedModel` has run already, or a scale of the file to load is missing.
    """
    if not isinstance(model, PartitionedModel):
        return _prepared(model, quantizer, "")
    if len(model.parts):
        raise RuntimeError("prepare_pt2e was called after the model had run: export it again")
    model._quantizer = quantizer
    return model


def convert_pt2e(model: nn.Module, **options: Any) -> nn.Module:
    """Replace the observers by roundings to what they have seen; torchao's function takes the ``options``."""
    parts = [(f"part{i}.", one) for i, one in enumerate(getattr(model, "parts", ()))]
    partitioned = isinstance(model, PartitionedModel)
    if path := os.environ.get(_DUMP):
        prefixed = [(prefix, one.program) for prefix, one in parts] if partitioned else [("", model)]
        scales = {name: float(one.amax) for prefix, of in prefixed for name, one in _observers(of, prefix)}
        Path(path).write_text(json.dumps(scales, indent=1) + "\n")
    if not partitioned:
        return pt2e.convert_pt2e(model, **options)
    for _, part in parts:
        part.program = pt2e.convert_pt2e(part.program, **options)
    model._is_converted = True
    return model


def _prepared(program: nn.Module, quantizer: Any, prefix: str) -> nn.Module:
    prepared = pt2e.prepare_pt2e(program, quantizer)
    if path := os.environ.get(_LOAD):
        scales = json.loads(Path(path).read_text())
        for name, observer in _observers(prepared, prefix):
            if name not in scales:
                raise RuntimeError(f"{_LOAD}={path} has no scale of {name}: calibrate the model and write it")
            observer.amax.fill_(scales[name])
    return prepared


def _observers(program: nn.Module, prefix: str) -> list[tuple[str, AbsMaxObserver]]:
    found = program.named_modules()
    return [(prefix + name, one) for name, one in found if isinstance(one, AbsMaxObserver)]
