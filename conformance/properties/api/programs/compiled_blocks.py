"""Property ``compiled-blocks``: compiled parts of networks with 64 and more tokens, and their gradients, have
errors of the size of the CPU's.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch.nn import functional as F

from conformance.device.compilation import compile_with_log
from conformance.framework import trees
from conformance.framework.calls import attempt_on, report_error
from conformance.framework.compare import fact, to_host_tensor
from conformance.framework.property import register
from conformance.framework.recorder import Recorder
from conformance.framework.tolerances import TF32_UNIT, unit_of
from conformance.model import seeds
from conformance.model.verdicts import Kind
from conformance.properties.api.programs._program_checks import function_returning_declared_dtypes
from conformance.samples.operators import dtype_of
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target

_FunctionAndInputs = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]
#: The number of sizes in which each block runs.
_SIZES_OF_BLOCK = 2
#: The device's error may be this multiple of the error that the CPU makes in the same dtype, plus the same
#: number of units of the largest result. A compiler may fuse or split sums, which changes their roundings.
_FACTOR = 4.0
#: The root mean square error of correct rounding, in units: 1 / sqrt(12), rounded down.
_RMS_ROUNDING = 0.25


class _RandomTensors:
    """A source of random CPU tensors of one dtype."""

    def __init__(self, dtype: torch.dtype, seed: int) -> None:
        self._dtype = dtype
        self._generator = torch.Generator().manual_seed(seed)

    def values(self, *shape: int) -> torch.Tensor:
        """Return normally distributed numbers."""
        return torch.randn(shape, generator=self._generator).to(self._dtype)

    def weight(self, rows: int, columns: int) -> torch.Tensor:
        """Return a random matrix, scaled so that its products with values of order one are of order one."""
        return (self.values(rows, columns) / math.sqrt(min(rows, columns))).to(self._dtype)


@dataclasses.dataclass(frozen=True)
class NetworkBlock:
    """A part of a network.

    ``make(tokens, width, heads, tensors)`` returns a function and its inputs. If ``is_exact`` is true, the
    CPU's result is exact, and the block has no form in float64. ``other_dtypes`` are the dtypes that the
    block needs besides the dtype of its inputs.
    """

    make: Callable[[int, int, int, _RandomTensors], _FunctionAndInputs]
    is_exact: bool = False
    other_dtypes: Collection[str] = ()


def _feed_forward_block(tokens: int, width: int, heads: int, tensors: _RandomTensors) -> _FunctionAndInputs:
    def feed_forward(x: Any, up: Any, down: Any) -> Any:
        return F.linear(F.gelu(F.linear(x, up)), down)

    return feed_forward, (
        tensors.values(tokens, width),
        tensors.weight(2 * width, width),
        tensors.weight(width, 2 * width),
    )


def _gated_feed_forward_block(
    tokens: int, width: int, heads: int, tensors: _RandomTensors
) -> _FunctionAndInputs:
    def gated_feed_forward(x: Any, gate: Any, up: Any) -> Any:
        return F.silu(x @ gate) * (x @ up)

    return gated_feed_forward, (
        tensors.values(tokens, width),
        tensors.weight(width, width),
        tensors.weight(width, width),
    )


def _residual_layer_norm_block(
    tokens: int, width: int, heads: int, tensors: _RandomTensors
) -> _FunctionAndInputs:
    def add_and_normalize(x: Any, branch: Any, weight: Any, bias: Any) -> Any:
        total = x + branch
        return total, F.layer_norm(total, (width,), weight, bias)

    return add_and_normalize, (
        tensors.values(tokens, width),
        tensors.values(tokens, width),
        tensors.values(width),
        tensors.values(width),
    )


def _rms_norm_block(tokens: int, width: int, heads: int, tensors: _RandomTensors) -> _FunctionAndInputs:
    def rms_norm(x: Any, weight: Any) -> Any:
        return x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-5).to(x.dtype) * weight

    return rms_norm, (tensors.values(tokens, width), tensors.values(width))


def _attention_block(tokens: int, width: int, heads: int, tensors: _RandomTensors) -> _FunctionAndInputs:
    def attention(x: Any, projection: Any, out: Any) -> Any:
        parts = (x @ projection).view(tokens, 3, heads, width // heads).permute(1, 2, 0, 3)
        query, key, value = parts.unbind(0)
        scores = (query @ key.transpose(-2, -1)) * (width // heads) ** -0.5
        mixed = scores.float().softmax(-1).to(x.dtype) @ value
        return mixed.transpose(0, 1).reshape(tokens, width) @ out

    return attention, (
        tensors.values(tokens, width),
        tensors.weight(width, 3 * width),
        tensors.weight(width, width),
    )


def _rotary_embedding_block(
    tokens: int, width: int, heads: int, tensors: _RandomTensors
) -> _FunctionAndInputs:
    def rotary_embedding(x: Any, cosines: Any, sines: Any) -> Any:
        low, high = x.chunk(2, -1)
        return x * cosines + torch.cat((-high, low), -1) * sines

    return rotary_embedding, (
        tensors.values(tokens, width),
        tensors.values(tokens, width),
        tensors.values(tokens, width),
    )


def _in_place_update_block(
    tokens: int, width: int, heads: int, tensors: _RandomTensors
) -> _FunctionAndInputs:
    def update_in_place(x: Any, update: Any) -> Any:
        cache = x.clone()
        rows = cache[1::2]
        rows.mul_(2)
        total = cache + update  # reads the rows that were written through a view
        rows.add_(update[: tokens // 2])
        return total, cache

    return update_in_place, (tensors.values(tokens, width), tensors.values(tokens, width))


def _bit_reinterpretation_block(
    tokens: int, width: int, heads: int, tensors: _RandomTensors
) -> _FunctionAndInputs:
    def modify_bits_as_integers(x: Any, scale: Any) -> Any:
        cleared = x.clone()
        integers = cleared.view(torch.int16 if x.itemsize == 2 else torch.int32)
        integers[:, ::2].bitwise_and_(-256)
        return cleared * scale

    return modify_bits_as_integers, (tensors.values(tokens, width), tensors.values(width))


#: Blocks by name.
BLOCKS: Mapping[str, NetworkBlock] = {
    "feed-forward": NetworkBlock(_feed_forward_block),
    "gated feed-forward": NetworkBlock(_gated_feed_forward_block),
    "residual and layer norm": NetworkBlock(_residual_layer_norm_block),
    "root mean square norm": NetworkBlock(_rms_norm_block, other_dtypes=("float32",)),
    "attention": NetworkBlock(_attention_block, other_dtypes=("float32",)),
    "rotated positions": NetworkBlock(_rotary_embedding_block),
    "writes through a view": NetworkBlock(_in_place_update_block),
    "a view of another dtype": NetworkBlock(
        _bit_reinterpretation_block, is_exact=True, other_dtypes=("int16", "int32")
    ),
}


@register(
    "compiled-blocks",
    subject_kind="api",
    statement=(
        "Parts of networks with 64 and more tokens, compiled as one graph, and their gradients err by at "
        "most 4 times the CPU's largest error in the same dtype plus 4 units of the largest result. In "
        "dtypes of 16 bits their root mean square error is at most 4 times the CPU's plus one unit. The "
        "parts are projections, norms, attention, rotated positions, and writes through views."
    ),
    documentation="generated/torch.compile.html",
    basis="consistency",
    ground="A compiled function returns the results of the same function without compilation",
    level="core",
    applies=function_returning_declared_dtypes(("bfloat16", "float16", "float32")),
    capabilities=("compile", "views"),
    modes=("compile",),
    runs=False,
)
def check(target: Target, subject: Subject, recorder: Recorder) -> None:
    """Compile each block in drawn sizes, call it twice, and compare its error with the CPU's."""
    dtype = dtype_of(recorder.id.dtype)
    graphs_run = 0
    for name, block in BLOCKS.items():
        if undeclared := {other for other in block.other_dtypes if not target.declares(other)}:
            recorder.omit_for_dtypes(undeclared)
            continue
        draw = random.Random(seeds.seed_for(f"{name} in {recorder.id.dtype}"))
        for _ in range(_SIZES_OF_BLOCK):
            recorder.samples(1, 1)
            heads = draw.choice((1, 2, 4))
            tokens, width = draw.randint(64, 200), heads * 2 * draw.randint(16, 48)
            function, inputs = block.make(tokens, width, heads, _RandomTensors(dtype, draw.getrandbits(32)))
            call, log = compile_with_log(target, function)
            label = f"{name} of {tokens} tokens of width {width} with {heads} heads"
            exact = function if block.is_exact else _with_float64_inputs(function)
            for input_set in range(2):
                if not _check_compiled_call(
                    target, recorder, call, function, exact, inputs, f"{label}, call {input_set}"
                ):
                    break
                inputs = tuple(tensor.flip(0) for tensor in inputs)
            else:
                if not block.is_exact and target.capable("autograd"):
                    compiled, uncompiled = map(_gradient_function, (call, function))
                    wide, label = _with_float64_inputs(uncompiled), f"gradients of {label}"
                    _check_compiled_call(target, recorder, compiled, uncompiled, wide, inputs, label)
            graphs_run += log.has_run_operator_calls
    if not graphs_run:
        recorder.vacuous("no compiled graph of any block ran")


def _gradient_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes the gradients of ``function`` with respect to its inputs.

    The output gradients are the results themselves, so that each result element has its own weight.
    """

    def gradients_of_inputs(*inputs: torch.Tensor) -> Any:
        leaves = [tensor.detach().requires_grad_() for tensor in inputs]
        results = trees.tensors(function(*leaves))
        return torch.autograd.grad(results, leaves, [result.detach() for result in results])

    return gradients_of_inputs


def _with_float64_inputs(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs: function(*(tensor.double() for tensor in inputs))


def _check_compiled_call(
    target: Target,
    recorder: Recorder,
    compiled: Callable[..., Any],
    uncompiled: Callable[..., Any],
    exact: Callable[..., Any],
    inputs: tuple[torch.Tensor, ...],
    label: str,
) -> bool:
    """Call a compiled function on the device. Compare its errors with the errors of the uncompiled function
    on the CPU, and return whether the call passed.

    The errors are differences from the results of ``exact``. In dtypes of 16 bits, the check also compares
    the root mean square of the errors, to detect small errors of all elements. In float32, this comparison
    would reject kernels that add terms one after the other, because their error grows with the number of
    terms.
    """
    outcome = attempt_on(
        target, lambda: compiled(*(tensor.to(target.device, copy=True) for tensor in inputs))
    )
    if not outcome.ok:
        assert outcome.error is not None
        report_error(target, recorder, outcome.error, label=label)
        return False
    on_cpu = trees.tensors(uncompiled(*(tensor.clone() for tensor in inputs)))
    references = trees.tensors(exact(*(tensor.clone() for tensor in inputs)))
    passed = True
    is_tf32 = target.precision == "tf32" and inputs[0].dtype == torch.float32
    for number, (actual, cpu, reference) in enumerate(
        zip(trees.tensors(outcome.value), on_cpu, references, strict=True)
    ):
        unit = TF32_UNIT if is_tf32 else unit_of(cpu.dtype)
        same_form = actual.dtype == cpu.dtype and actual.shape == cpu.shape
        measures = [("largest", _largest_magnitude, 1.0)]
        if unit_of(cpu.dtype) > unit_of(torch.float32):
            measures.append(("root mean square", _root_mean_square_of, _RMS_ROUNDING))
        for name, size, rounding in measures:
            allowed = _FACTOR * (
                size(_difference_in_float64(cpu, reference)) + rounding * unit * size(reference)
            )
            error = size(_difference_in_float64(to_host_tensor(actual), reference)) if same_form else math.inf
            # If the CPU overflows, the bound is infinite, and every error is accepted.
            holds = error <= allowed or (same_form and not math.isfinite(allowed))
            message = (
                f"{label}: the {name} error of result {number} ({actual.dtype}, {list(actual.shape)}) is "
                f"{error:.3g}; expected {cpu.dtype}, {list(cpu.shape)} and at most {allowed:.3g}."
            )
            passed &= fact(recorder, holds, Kind.VALUE, "" if holds else message)
            if not holds:
                break
    return passed


def _difference_in_float64(actual: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    return (actual.double() - reference.double()).nan_to_num(nan=math.inf, posinf=math.inf, neginf=math.inf)


def _largest_magnitude(values: torch.Tensor) -> float:
    return float(values.double().abs().max())


def _root_mean_square_of(values: torch.Tensor) -> float:
    return float(values.double().square().mean().sqrt())
