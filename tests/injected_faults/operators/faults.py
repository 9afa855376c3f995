"""Injected faults of operators: at least one for every operator property.

A fault is a copy of an OpInfo entry with broken callables, which acts as a faulty device. The reference and
the samples always come from torch's own entry.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from conformance import torch_testing_internals
from conformance.model.verdicts import Kind
from conformance.samples.operators import dtype_name
from conformance.subjects import torch_databases
from conformance.subjects.torch_databases import Subject
from conformance.target.target import Target
from tests.injected_faults.broken_compile_backends import enlarge_gradient

Inject = Callable[[Any], None]


@dataclasses.dataclass(frozen=True)
class Fault:
    """An injected fault of an operator. ``inject`` changes a private copy of the operator's OpInfo entry. The
    check of this copy must fail with ``kind``.
    """

    property: str
    operator: str
    dtype: str
    kind: Kind
    inject: Inject
    hooks: dict[str, str] = dataclasses.field(default_factory=dict)
    capabilities: dict[str, bool] = dataclasses.field(default_factory=dict)
    backend: str = "aot_eager"

    @property
    def name(self) -> str:
        return f"{self.property}-{self.operator}-{self.inject.__name__}"


FAULTS: list[Fault] = []


def register_fault(
    property: str, operator: str, dtype: str, kind: Kind, *, target: dict[str, Any] | None = None
) -> Callable[[Inject], Inject]:
    def register(inject: Inject) -> Inject:
        FAULTS.append(Fault(property, operator, dtype, kind, inject, **(target or {})))
        return inject

    return register


def subject_with_fault(fault: Fault) -> Subject:
    """Return the subject of the fault's operator, with the broken OpInfo entry."""
    whole = torch_databases.find("operator", fault.operator)
    info = copy.copy(whole.info)
    fault.inject(info)
    return Subject("operator", fault.operator, info)


def target_with_fault(fault: Fault | None = None) -> Target:
    """Return a target for the CPU that declares all dtypes and has the hooks, capabilities and compile
    backend of the fault. Its graphs record and replay calls in Python.
    """
    names = {dtype_name(d) for info in torch_testing_internals.op_db() for d in info.dtypes}
    hooks = {"graph": "tests.support.fake_graph:Graph", **(fault.hooks if fault else {})}
    capabilities = dict(fault.capabilities) if fault else {}
    backend = fault.backend if fault else "aot_eager"
    return Target(
        "cpu",
        None,
        "cpu",
        frozenset(names),
        capabilities,
        hooks=hooks,
        compile_backend=backend,
        fused_options={},
    )


def _replace_op(info: Any, change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    info.op = change(info.op)


@register_fault("value", "mul", "float32", Kind.VALUE)
def result_off_by_a_hundredth(info: Any) -> None:
    _replace_op(info, lambda op: lambda *a, **k: op(*a, **k) * 1.01)


@register_fault("value", "sum", "bfloat16", Kind.VALUE)
def result_off_by_a_tenth(info: Any) -> None:
    _replace_op(info, lambda op: lambda *a, **k: op(*a, **k) * 1.125)


@register_fault("value", "add", "int64", Kind.VALUE)
def result_off_by_one(info: Any) -> None:
    _replace_op(info, lambda op: lambda *a, **k: op(*a, **k) + 1)


@register_fault("value", "sort", "float32", Kind.VALUE)
def indices_of_wrong_row(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(*args: Any, **kwargs: Any) -> Any:
            values, indices = op(*args, **kwargs)
            return values, indices.flip(-1) if indices.dim() else indices

        return faulty_call

    _replace_op(info, make_faulty_op)


@register_fault("value", "linalg.svd", "float32", Kind.VALUE)
def singular_vectors_not_unitary(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(*args: Any, **kwargs: Any) -> Any:
            u, s, vh = op(*args, **kwargs)
            return u * 1.01, s, vh / 1.01

        return faulty_call

    _replace_op(info, make_faulty_op)


@register_fault("value", "add", "float32", Kind.DTYPE)
def wrong_result_dtype(info: Any) -> None:
    _replace_op(info, lambda op: lambda *a, **k: op(*a, **k).double())


@register_fault("value", "add", "float32", Kind.REFUSED)
def raises_not_implemented(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError("no kernel")

        return faulty_call

    _replace_op(info, make_faulty_op)


def _replace_out_form(write: Callable[[torch.Tensor, torch.Tensor], Any]) -> Inject:
    def inject(info: Any) -> None:
        def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
            def faulty_call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
                if out is None:
                    return op(*args, **kwargs)
                return write(out, op(*args, **kwargs))

            return faulty_call

        _replace_op(info, make_faulty_op)

    return inject


def _out_not_resized(out: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    if out.shape == value.shape:
        out.copy_(value)
    return out


def _returns_view_of_out(out: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    out.resize_(value.shape).copy_(value)
    return out.view_as(out)


def _out_of_any_dtype(out: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return out.resize_(value.shape).copy_(value)


def _out_gets_new_memory(out: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return out.set_(value.contiguous())


for _write, _kind in (
    (_out_not_resized, Kind.METADATA),
    (_returns_view_of_out, Kind.ALIASING),
    (_out_gets_new_memory, Kind.ALIASING),
):
    _breaks = _replace_out_form(_write)
    _breaks.__name__ = _write.__name__
    register_fault("out", "add", "float32", _kind)(_breaks)


def out_of_any_dtype_accepted(info: Any) -> None:
    _replace_out_form(_out_of_any_dtype)(info)


for _name in ("out_dtype", "out_device"):
    register_fault(_name, "add", "float32", Kind.ERROR_TYPE)(out_of_any_dtype_accepted)


@register_fault("out_grad", "add", "float32", Kind.ERROR_TYPE)
def out_that_requires_grad_accepted(info: Any) -> None:
    _replace_out_form(lambda out, value: out.data.copy_(value))(info)


@register_fault("variants", "add", "float32", Kind.ALIASING)
def in_place_returns_copy(info: Any) -> None:
    original = info.inplace_variant
    info.inplace_variant = lambda *a, **k: original(*a, **k).clone()


@register_fault("variants", "add", "float32", Kind.VALUE)
def wrong_method_result(info: Any) -> None:
    original = info.method_variant
    info.method_variant = lambda *a, **k: original(*a, **k) + 0.5


@register_fault("variants", "mul", "float32", Kind.VALUE)
def wrong_gradient_of_python_operator(info: Any) -> None:
    original = info.operator_variant
    info.operator_variant = lambda *a, **k: enlarge_gradient(original(*a, **k))


@register_fault("layout", "abs", "float32", Kind.VALUE)
def strides_ignored(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            contiguous_strides = torch.empty(x.shape).stride()
            return op(x if x.is_contiguous() else x.as_strided(x.shape, contiguous_strides), *args, **kwargs)

        return faulty_call

    _replace_op(info, make_faulty_op)


@register_fault("layout", "abs", "float32", Kind.VALUE)
def offset_ignored(info: Any) -> None:
    _replace_op(info, lambda op: lambda x, *a, **k: op(x.as_strided(x.shape, x.stride(), 0), *a, **k))


@register_fault("bits", "sin", "complex64", Kind.VALUE)
def conjugate_bit_ignored(info: Any) -> None:
    _replace_op(info, lambda op: lambda x, *a, **k: op(x.conj() if x.is_conj() else x, *a, **k))


@register_fault("bits", "sin", "float32", Kind.VALUE)
def negative_bit_ignored(info: Any) -> None:
    _replace_op(info, lambda op: lambda x, *a, **k: op(torch._neg_view(x) if x.is_neg() else x, *a, **k))


@register_fault("zero-elements", "sum", "float32", Kind.METADATA)
def empty_input_keeps_its_shape(info: Any) -> None:
    _replace_op(info, lambda op: lambda x, *a, **k: op(x, *a, **k) if x.numel() else x)


@register_fault("dtypes", "add", "any", Kind.REFUSED)
def raises_for_integers(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if x.dtype == torch.int64:
                raise NotImplementedError('"add" not implemented for Long')
            return op(x, *args, **kwargs)

        return faulty_call

    _replace_op(info, make_faulty_op)


@register_fault("dtypes", "cholesky", "any", Kind.VALUE)
def wrong_in_float16_beyond_the_cpu(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if x.dtype != torch.float16:
                return op(x, *args, **kwargs)
            return op(x.float(), *args, **kwargs).to(x.dtype) + 3

        return faulty_call

    _replace_op(info, make_faulty_op)


def _replace_errors(
    make: Callable[[Exception], Exception],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(*args: Any, **kwargs: Any) -> Any:
            try:
                return op(*args, **kwargs)
            except Exception as error:
                raise make(error) from None

        return faulty_call

    return make_faulty_op


@register_fault("error-type", "gather", "any", Kind.ERROR_TYPE)
def wrong_error_type(info: Any) -> None:
    _replace_op(info, _replace_errors(lambda error: KeyError(str(error))))


@register_fault("error-message", "gather", "any", Kind.MESSAGE)
def error_without_message(info: Any) -> None:
    _replace_op(info, _replace_errors(lambda error: type(error)("wrong")))


@register_fault("promotion", "add", "any", Kind.DTYPE)
def mixed_dtypes_promoted_to_double(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
            result = op(x, y, *args, **kwargs)
            mixed = isinstance(y, torch.Tensor) and x.dtype != y.dtype and not result.is_complex()
            return result.double() if mixed else result

        return faulty_call

    _replace_op(info, make_faulty_op)


@register_fault("views", "transpose", "float32", Kind.ALIASING)
def copy_instead_of_view(info: Any) -> None:
    _replace_op(info, lambda op: lambda *a, **k: op(*a, **k).clone())


@register_fault("views", "transpose_copy", "float32", Kind.ALIASING)
def view_instead_of_copy(info: Any) -> None:
    info.op = torch.transpose


for _property, _dtype in (("gradient", "float64"), ("gradgrad", "float64"), ("backward-cpu", "float32")):

    @register_fault(_property, "sin", _dtype, Kind.VALUE)
    def gradient_too_large(info: Any) -> None:
        _replace_op(info, lambda op: lambda *a, **k: enlarge_gradient(op(*a, **k)))


@register_fault("forward-ad", "sin", "float64", Kind.VALUE)
def forward_ad_tangent_too_large(info: Any) -> None:
    _replace_op(
        info, lambda op: lambda x, *a, **k: op(x, *a, **k) + 0.01 * (op(x, *a, **k) - op(x.detach(), *a, **k))
    )


def _is_fake_tensor(tensor: torch.Tensor) -> bool:
    return type(tensor).__name__ == "FakeTensor"


@register_fault("fake", "add", "float32", Kind.METADATA)
def real_kernel_returns_other_strides(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(*args: Any, **kwargs: Any) -> Any:
            result = op(*args, **kwargs)
            if _is_fake_tensor(result) or result.dim() < 2:
                return result
            return result.transpose(0, 1).contiguous().transpose(0, 1)

        return faulty_call

    _replace_op(info, make_faulty_op)


@register_fault("fake", "add", "float32", Kind.METADATA)
def real_kernel_returns_other_shape(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(*args: Any, **kwargs: Any) -> Any:
            result = op(*args, **kwargs)
            return result if _is_fake_tensor(result) else result.unsqueeze(0)

        return faulty_call

    _replace_op(info, make_faulty_op)


@register_fault("fake", "transpose", "float32", Kind.ALIASING)
def real_kernel_returns_copy_of_view(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(*args: Any, **kwargs: Any) -> Any:
            result = op(*args, **kwargs)
            return result if _is_fake_tensor(result) else result.clone(memory_format=torch.preserve_format)

        return faulty_call

    _replace_op(info, make_faulty_op)


@register_fault("composite", "add", "float32", Kind.METADATA)
def subclass_written_into_plain_tensor(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(*args: Any, **kwargs: Any) -> Any:
            result = op(*args, **kwargs)
            return torch.zeros(result.shape, dtype=result.dtype).copy_(result)

        return faulty_call

    _replace_op(info, make_faulty_op)


class _IdentityWithPlainDerivatives(torch.autograd.Function):
    """An identity function that copies its gradient and its tangent into plain tensors, so that tensor
    subclasses are lost.
    """

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return torch.zeros(grad.shape).copy_(grad)

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        return torch.zeros(tangent.shape).copy_(tangent)


@register_fault("composite-backward", "sin", "float32", Kind.METADATA)
@register_fault("composite-forward-ad", "sin", "float32", Kind.METADATA)
def derivatives_written_into_plain_tensors(info: Any) -> None:
    _replace_op(info, lambda op: lambda x: _IdentityWithPlainDerivatives.apply(op(x)))


@register_fault("extremal", "exp", "float32", Kind.VALUE)
def nan_becomes_zero(info: Any) -> None:
    _replace_op(info, lambda op: lambda *a, **k: op(*a, **k).nan_to_num(nan=0.0, posinf=float("inf")))


@register_fault("sizes", "exp", "float32", Kind.VALUE)
def wrong_from_element_65536(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(*args: Any, **kwargs: Any) -> Any:
            result = op(*args, **kwargs)
            if isinstance(result, torch.Tensor):
                result.reshape(-1)[65536:] = 7
            return result

        return faulty_call

    _replace_op(info, make_faulty_op)


def _overwrite_last_element(tensor: torch.Tensor) -> None:
    tensor.data.reshape(-1)[-1:].fill_(7)


@register_fault("value", "exp", "float32", Kind.STATE)
@register_fault("layout", "exp", "float32", Kind.STATE)
@register_fault("sizes", "exp", "float32", Kind.STATE)
def argument_overwritten(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = op(self, *args, **kwargs)
            if isinstance(self, torch.Tensor) and result is not self and self.numel():
                _overwrite_last_element(self)
            return result

        return faulty_call

    _replace_op(info, make_faulty_op)


@register_fault("gradient", "exp", "float64", Kind.STATE)
def argument_overwritten_by_backward(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = op(self, *args, **kwargs)
            if result.requires_grad and self.numel():
                result.register_hook(lambda gradient: _overwrite_last_element(self))
            return result

        return faulty_call

    _replace_op(info, make_faulty_op)


def _change_gradients(info: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Replace the operator by a function that applies ``change`` to the gradient of its result."""

    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(*args: Any, **kwargs: Any) -> Any:
            result = op(*args, **kwargs)
            if result.requires_grad:
                result.register_hook(change)
            return result

        return faulty_call

    _replace_op(info, make_faulty_op)


@register_fault("gradient-uses", "sin", "float64", Kind.VALUE)
def strided_gradient_read_as_dense(info: Any) -> None:
    def read(gradient: torch.Tensor) -> torch.Tensor:
        if gradient.is_contiguous() or 0 in gradient.stride():
            return gradient
        return gradient.as_strided(gradient.shape, torch.empty(gradient.shape).stride())

    _change_gradients(info, read)


@register_fault("gradient-uses", "cos", "float64", Kind.VALUE)
def expanded_gradient_treated_as_none(info: Any) -> None:
    _change_gradients(info, lambda gradient: gradient * 0 if 0 in gradient.stride() else gradient)


@register_fault("gradient-uses", "mul", "float64", Kind.VALUE)
def gradient_of_one_input_doubled(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(x: Any, y: Any, **kwargs: Any) -> Any:
            result = op(x, y, **kwargs)
            alone = isinstance(y, torch.Tensor) and x.requires_grad != y.requires_grad
            return enlarge_gradient(result) if alone else result

        return faulty_call

    _replace_op(info, make_faulty_op)


@register_fault("gradient-uses", "exp", "float64", Kind.VALUE)
def gradient_of_second_use_lost(info: Any) -> None:
    used: list[Any] = []

    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(x: Any, **kwargs: Any) -> Any:
            used_before = any(used_input is x for used_input in used)
            used.append(x)
            return op(x, **kwargs) + (0 if not used_before else op(x.detach()) - op(x))

        return faulty_call

    _replace_op(info, make_faulty_op)


class _GradientOnlyIfFirstIsDefined(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *results: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        return tuple(tensor.clone() for tensor in results)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients if gradients[0] is not None else tuple(None for _ in gradients)


@register_fault("gradient-uses", "var_mean", "float64", Kind.VALUE)
def gradient_of_second_result_alone_lost(info: Any) -> None:
    _replace_op(info, lambda op: lambda *a, **k: _GradientOnlyIfFirstIsDefined.apply(*op(*a, **k)))


@register_fault("reduction", "sum", "float32", Kind.METADATA)
def keepdim_ignored(info: Any) -> None:
    _replace_op(info, lambda op: lambda *a, keepdim=False, **k: op(*a, **k))


@register_fault("reduction", "prod", "float32", Kind.VALUE)
def product_of_empty_input_is_zero(info: Any) -> None:
    _replace_op(info, lambda op: lambda x, *a, **k: op(x, *a, **k) * (1 if x.numel() else 0))


@register_fault("random", "uniform", "float32", Kind.STATE)
def unseeded_values_repeat(info: Any) -> None:
    def faulty_call(x: torch.Tensor, low: float = 0.0, high: float = 1.0, **kwargs: Any) -> torch.Tensor:
        generator = torch.Generator().manual_seed(3)
        return x.uniform_(low, high, generator=generator)

    info.unseeded = faulty_call


@register_fault("random", "uniform", "float32", Kind.STATE)
def seed_ignored(info: Any) -> None:
    def faulty_call(x: torch.Tensor, low: float = 0.0, high: float = 1.0, **kwargs: Any) -> torch.Tensor:
        generator = torch.Generator()
        generator.seed()
        return x.uniform_(low, high, generator=generator)

    info.unseeded = faulty_call


@register_fault("random", "randn_like", "float32", Kind.VALUE)
def uniform_instead_of_normal(info: Any) -> None:
    info.unseeded = lambda x, **k: torch.rand_like(x, **k) * 3.46 - 1.73


_fallbacks = 0


def count_fallbacks() -> int:
    return _fallbacks


@register_fault(
    "placement",
    "sin",
    "float32",
    Kind.PLACEMENT,
    target={
        "hooks": {"count_fallbacks": f"{__name__}:count_fallbacks"},
        "capabilities": {"cpu_fallback": False},
    },
)
def runs_as_cpu_fallback(info: Any) -> None:
    def make_faulty_op(op: Callable[..., Any]) -> Callable[..., Any]:
        def faulty_call(*args: Any, **kwargs: Any) -> Any:
            global _fallbacks
            _fallbacks += 1
            return op(*args, **kwargs)

        return faulty_call

    _replace_op(info, make_faulty_op)
