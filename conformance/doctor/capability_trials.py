"""One small trial per capability: calls that need the capability, and the values that they must return.

A trial has three outcomes: the device has the capability, the device lacks it, or the trial itself is broken
(:class:`DefectiveTrial`), which says nothing about the device.
"""

from __future__ import annotations

import io
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.dlpack

from conformance import torch_testing_internals
from conformance.doctor.registration_checks import MODULE_FUNCTIONS
from conformance.framework.calls import one_line

Trial = Callable[[str], object]

_IDENTITY = [[1.0, 0.0], [0.0, 1.0]]

_TRIALS: dict[str, Trial] = {}
#: The capabilities that have a trial, in the order in which a new backend needs them: first the capabilities
#: that most results need, then training, asynchronous work, and the other capabilities by area.
ORDER = (
    *(
        "accelerator",
        "storage",
        "strides",
        "views",
        "inplace",
        "non_contiguous",
        "out_variants",
        "data_dependent_shapes",
        "channels_last",
    ),
    *("autograd", "random", "generator", "asynchronous", "streams", "events", "event_timing"),
    *("record_stream", "pinned_memory", "memory_statistics", "serialization", "fake_tensors", "autocast"),
    *("grad_scaler", "foreach", "foreach_optimizers", "fused_optimizers", "capturable_optimizers"),
    *("double_backward", "forward_ad", "functorch", "conj_neg_views", "dlpack", "graphs"),
    *("multiple_devices", "peer_copy", "sparse", "sparse_compressed", "nested", "quantized"),
)


class NoEffect(Exception):
    """A call of a trial returned without an error, but did not have the expected effect."""


class DefectiveTrial(Exception):
    """A trial failed because of a defect of the suite, not because of the device."""


def _register_trial_of(capability: str) -> Callable[[Trial], Trial]:
    def register(function: Trial) -> Trial:
        _TRIALS[capability] = function
        return function

    return register


def trial_names() -> list[str]:
    """Return the capabilities that have a trial, in the order in which a new backend needs them.

    The other capabilities have no trial because a trial would need a second process, a compiler or minutes.
    """
    return sorted(_TRIALS, key=ORDER.index)


def error_of_capability_trial(capability: str, device: str) -> str:
    """Run the trial of a capability on a device; return its error message, or an empty text on success.

    Raise DefectiveTrial if the trial failed because of a defect of the suite.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _TRIALS[capability](device)
            _require_module_functions(capability, device)
    except NoEffect as error:
        return str(error)
    except Exception as error:
        if _is_mistake_of_trial(error):
            raise DefectiveTrial(f"the trial of {capability} is broken: {one_line(error)}") from error
        return one_line(error)
    return ""


def _is_mistake_of_trial(error: Exception) -> bool:
    """Return whether an exception is a mistake of the suite, and not an outcome of the trial.

    An AttributeError about a name that torch, a module or a tensor does not have is an outcome of the trial.
    Any other AttributeError, a NameError or an AssertionError is a mistake of the suite, if a function of the
    suite raises the error.
    """
    if not isinstance(error, (AttributeError, NameError, AssertionError)):
        return False
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    module = "" if traceback is None else str(traceback.tb_frame.f_globals.get("__name__", ""))
    if module.partition(".")[0] != __name__.partition(".")[0]:
        return False
    if isinstance(error, AttributeError):
        if error.name is None:  # raised on purpose, by torch or the backend
            return False
        owner = error.obj if isinstance(error.obj, (type, types.ModuleType)) else type(error.obj)
        home = owner.__name__ if isinstance(owner, types.ModuleType) else owner.__module__
        return home.partition(".")[0] in ("builtins", __name__.partition(".")[0])
    return True


def _require_module_functions(capability: str, device: str) -> None:
    """Raise NoEffect if the device's module does not have a function that this capability requires."""
    if torch.device(device).type == "cpu":
        return
    try:
        module = torch.get_device_module(device)
    except RuntimeError:
        return  # torch cannot call functions of a module that does not exist
    absent = [
        name
        for name, needed_by in MODULE_FUNCTIONS.items()
        if needed_by == capability and not hasattr(module, name)
    ]
    name = getattr(module, "__name__", f"the module of {torch.device(device).type}")
    _require_effect(not absent, f"{name} does not have {' and '.join(absent)}, which torch calls")


def _require_effect(holds: bool, text: str) -> None:
    if not holds:
        raise NoEffect(text)


def _require_values(name: str, actual: torch.Tensor, expected: Any) -> None:
    """Raise NoEffect unless a tensor of the device has the expected values, a number or nested lists."""
    values = actual.detach().cpu().tolist()
    _require_effect(values == expected, f"{name} is {values}, expected {expected}")


def _ones(device: str, *shape: int) -> torch.Tensor:
    return torch.ones(shape or (2,)).to(device)


def _matrix(device: str) -> torch.Tensor:
    return torch.arange(6.0).reshape(2, 3).to(device)


def _leaf_tensor(device: str) -> torch.Tensor:
    return _ones(device).requires_grad_()


def _require_accelerator(device: str) -> torch.device:
    _require_effect(torch.device(device).type != "cpu", "the CPU is not an accelerator")
    return torch.device(device)


@_register_trial_of("accelerator")
def _try_accelerator(device: str) -> None:
    kind = torch.device(device).type
    if kind == "cpu":
        torch.get_device_module(kind)
        return  # torch.accelerator does not manage the CPU
    accelerator = torch_testing_internals.current_accelerator()
    if accelerator is None:
        raise NoEffect("torch.accelerator has no accelerator")
    _require_effect(accelerator.type == kind, f"the accelerator of torch.accelerator is {accelerator.type}")
    torch.get_device_module(kind)


@_register_trial_of("asynchronous")
def _try_asynchronous(device: str) -> None:
    # A trial cannot show that the device works asynchronously. It shows that waiting for work succeeds.
    _require_accelerator(device)
    torch.accelerator.synchronize()


@_register_trial_of("autograd")
def _try_autograd(device: str) -> None:
    leaf = _leaf_tensor(device)
    (leaf * leaf).sum().backward()  # type: ignore[no-untyped-call]
    if leaf.grad is None:
        raise NoEffect("backward left no gradient")
    _require_values("the gradient of x * x at 1", leaf.grad, [2.0, 2.0])


@_register_trial_of("double_backward")
def _try_double_backward(device: str) -> None:
    leaf = _leaf_tensor(device)
    (first,) = torch.autograd.grad((leaf * leaf * leaf).sum(), leaf, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), leaf)
    _require_values("the second derivative of x * x * x at 1", second, [6.0, 6.0])


@_register_trial_of("forward_ad")
def _try_forward_ad(device: str) -> None:
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(_ones(device), _ones(device))  # type: ignore[no-untyped-call]
        tangent = forward_ad.unpack_dual(dual * dual).tangent  # type: ignore[no-untyped-call]
        _require_effect(tangent is not None, "the result has no tangent")
        _require_values("the tangent of x * x at 1", tangent, [2.0, 2.0])


@_register_trial_of("out_variants")
def _try_out_variants(device: str) -> None:
    out = _ones(device)
    torch.add(_ones(device), _ones(device), out=out)
    _require_values("out= of 1 + 1", out, [2.0, 2.0])


@_register_trial_of("inplace")
def _try_inplace(device: str) -> None:
    tensor = _ones(device)
    tensor.add_(_ones(device))
    _require_values("1 after add_(1)", tensor, [2.0, 2.0])


@_register_trial_of("views")
def _try_views(device: str) -> None:
    base = _ones(device, 2, 2)
    base.t()[0].copy_(torch.full((2,), 2.0))
    _require_values("a matrix after a write to its first column", base, [[2.0, 1.0], [2.0, 1.0]])


@_register_trial_of("storage")
def _try_storage(device: str) -> None:
    tensor = _ones(device)
    _require_effect(
        tensor.untyped_storage().nbytes() >= tensor.nbytes, "the storage is smaller than its tensor"
    )
    _require_effect(tensor.data_ptr() != 0, "data_ptr() of a tensor with elements is 0")


@_register_trial_of("strides")
def _try_strides(device: str) -> None:
    base = _matrix(device)
    for name, tensor, strides, offset in (
        ("t()", base.t(), (1, 3), 0),
        ("[:, 1:]", base[:, 1:], (3, 1), 1),
        ("as_strided", base.as_strided((2, 2), (1, 3), 1), (1, 3), 1),
        ("empty_strided", torch.empty_strided((2, 2), (1, 2), device=device), (1, 2), 0),
    ):
        actual = (tensor.stride(), tensor.storage_offset())
        _require_effect(
            actual == (strides, offset), f"{name} has strides and offset {actual}, not {(strides, offset)}"
        )


@_register_trial_of("non_contiguous")
def _try_non_contiguous(device: str) -> None:
    base = _matrix(device)
    _require_values("the sum of two columns", base.t()[0] + base[:, 2], [2.0, 8.0])
    _require_values("a copy of every second column", base[:, ::2].clone(), [[0.0, 2.0], [3.0, 5.0]])


@_register_trial_of("channels_last")
def _try_channels_last(device: str) -> None:
    image = _ones(device, 1, 2, 2, 2).contiguous(memory_format=torch.channels_last)
    _require_effect(image.is_contiguous(memory_format=torch.channels_last), "channels_last strides are lost")


@_register_trial_of("conj_neg_views")
def _try_conj_neg_views(device: str) -> None:
    negative = torch._neg_view(_ones(device))
    _require_effect(negative.is_neg(), "a negative view has no neg bit")
    _require_values("a negative view of 1", negative, [-1.0, -1.0])
    _require_values("a negative view of 1, plus 0", negative + 0, [-1.0, -1.0])
    try:
        numbers = torch.tensor([1 + 2j]).to(device)
        (numbers * numbers).cpu()
    except Exception:
        return  # a device without complex numbers has no conjugate views
    conjugate = numbers.conj()
    _require_effect(conjugate.is_conj(), "a conjugate view has no conj bit")
    _require_values("the conjugate view of 1 + 2j", conjugate, [1 - 2j])
    _require_values("the conjugate view of 1 + 2j, times 1", conjugate * 1, [1 - 2j])


@_register_trial_of("data_dependent_shapes")
def _try_data_dependent_shapes(device: str) -> None:
    _require_values("nonzero() of two ones", _ones(device).nonzero(), [[0], [1]])


@_register_trial_of("sparse")
def _try_sparse(device: str) -> None:
    _require_values("a sparse identity", torch.eye(2).to_sparse().to(device).to_dense(), _IDENTITY)


@_register_trial_of("sparse_compressed")
def _try_sparse_compressed(device: str) -> None:
    _require_values("a CSR identity", torch.eye(2).to_sparse_csr().to(device).to_dense(), _IDENTITY)


@_register_trial_of("quantized")
def _try_quantized(device: str) -> None:
    quantized = torch.quantize_per_tensor(_ones(device), 0.5, 0, torch.quint8)
    _require_values("1, quantized by 0.5", quantized.dequantize(), [1.0, 1.0])


@_register_trial_of("nested")
def _try_nested(device: str) -> None:
    parts = [_ones(device), _ones(device, 3)]
    padded = torch.nested.to_padded_tensor(torch.nested.nested_tensor(parts), 0.0)
    _require_values("a padded nested tensor", padded, [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])


@_register_trial_of("foreach")
def _try_foreach(device: str) -> None:
    _require_values("1 after _foreach_add(1)", torch._foreach_add([_ones(device)], 1.0)[0], [2.0, 2.0])


@_register_trial_of("functorch")
def _try_functorch(device: str) -> None:
    squares = torch.func.vmap(lambda row: row * row)(_matrix(device))
    _require_values("squares of rows", squares, [[0.0, 1.0, 4.0], [9.0, 16.0, 25.0]])


@_register_trial_of("random")
def _try_random(device: str) -> None:
    numbers = torch.rand(64, device=device).cpu()
    _require_effect(
        bool((numbers >= 0).all() and (numbers < 1).all()), "rand() leaves the interval from 0 to 1"
    )
    _require_effect(len(set(numbers.tolist())) > 32, "rand() repeats its numbers")


@_register_trial_of("generator")
def _try_generator(device: str) -> None:
    first, second = (
        torch.rand(8, device=device, generator=torch.Generator(device).manual_seed(1)) for _ in range(2)
    )
    _require_values("a draw after the same seed", second, first.cpu().tolist())


@_register_trial_of("streams")
def _try_streams(device: str) -> None:
    stream = torch.Stream(_require_accelerator(device))
    before = torch.accelerator.current_stream()
    torch.accelerator.set_stream(stream)
    torch.accelerator.set_stream(before)
    stream.synchronize()


@_register_trial_of("events")
def _try_events(device: str) -> None:
    _recorded_event(torch.Event(_require_accelerator(device)))


def _recorded_event(event: Any) -> Any:
    event.record(torch.accelerator.current_stream())
    event.synchronize()
    return event


@_register_trial_of("event_timing")
def _try_event_timing(device: str) -> None:
    first, second = (torch.Event(_require_accelerator(device), enable_timing=True) for _ in range(2))
    _recorded_event(first)
    _recorded_event(second)
    first.elapsed_time(second)


@_register_trial_of("record_stream")
def _try_record_stream(device: str) -> None:
    accelerator = _require_accelerator(device)
    _ones(device).record_stream(torch.Stream(accelerator))


@_register_trial_of("pinned_memory")
def _try_pinned_memory(device: str) -> None:
    _require_accelerator(device)
    _require_effect(torch.empty(1).pin_memory().is_pinned(), "is_pinned() is False for a pinned tensor")


@_register_trial_of("memory_statistics")
def _try_memory_statistics(device: str) -> None:
    _require_accelerator(device)
    before = torch.accelerator.memory_allocated()
    tensor = _ones(device, 1024)
    _require_effect(
        torch.accelerator.memory_allocated() > before, "memory_allocated does not grow with a tensor"
    )
    del tensor


@_register_trial_of("multiple_devices")
def _try_multiple_devices(device: str) -> None:
    _require_accelerator(device)
    count = torch.accelerator.device_count()
    _require_effect(count > 1, f"there is {count} device")


@_register_trial_of("peer_copy")
def _try_peer_copy(device: str) -> None:
    _try_multiple_devices(device)
    kind = torch.device(device).type
    _require_values("a copy on the second device", _ones(f"{kind}:0").to(f"{kind}:1"), [1.0, 1.0])


@_register_trial_of("graphs")
def _try_graphs(device: str) -> None:
    _require_accelerator(device)
    _require_effect(
        hasattr(torch.accelerator, "Graph"),
        "torch.accelerator.Graph does not exist, and the target file does not name a hook for graphs",
    )
    torch.accelerator.Graph()


@_register_trial_of("autocast")
def _try_autocast(device: str) -> None:
    kind = torch.device(device).type
    with torch.autocast(kind, dtype=torch.bfloat16):
        product = _ones(device, 2, 2) @ _ones(device, 2, 2)
    _require_effect(
        product.dtype == torch.bfloat16, f"a product under autocast is {product.dtype}, not bfloat16"
    )


@_register_trial_of("grad_scaler")
def _try_grad_scaler(device: str) -> None:
    scaler = torch.amp.GradScaler(torch.device(device).type, enabled=True)
    leaf = _leaf_tensor(device)
    optimizer = torch.optim.SGD([leaf], lr=0.25)
    scaler.scale((leaf * leaf).sum()).backward()  # type: ignore[no-untyped-call]
    scaler.step(optimizer)
    scaler.update()
    _require_values("1 after a step of SGD with gradient 2 and rate 0.25", leaf, [0.5, 0.5])


def _optimizer_step(device: str, **options: bool) -> None:
    leaf = _leaf_tensor(device)
    leaf.grad = _ones(device)
    torch.optim.AdamW([leaf], **options).step()  # type: ignore[arg-type]
    _require_effect(bool((leaf < 1).all()), "a step of AdamW does not change its parameter")


@_register_trial_of("fused_optimizers")
def _try_fused_optimizers(device: str) -> None:
    _optimizer_step(device, fused=True)


@_register_trial_of("capturable_optimizers")
def _try_capturable_optimizers(device: str) -> None:
    _require_accelerator(device)
    _optimizer_step(device, capturable=True)


@_register_trial_of("foreach_optimizers")
def _try_foreach_optimizers(device: str) -> None:
    _optimizer_step(device, foreach=True)


@_register_trial_of("serialization")
def _try_serialization(device: str) -> None:
    file = io.BytesIO()
    torch.save(_ones(device), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    _require_effect(
        loaded.device.type == torch.device(device).type, f"a saved tensor is loaded to {loaded.device}"
    )
    _require_values("a saved tensor", loaded, [1.0, 1.0])


@_register_trial_of("dlpack")
def _try_dlpack(device: str) -> None:
    _require_values("a tensor by DLPack", torch.utils.dlpack.from_dlpack(_ones(device)), [1.0, 1.0])


@_register_trial_of("fake_tensors")
def _try_fake_tensors(device: str) -> None:
    with torch_testing_internals.fake_tensor_mode():
        result = torch.empty(2, device=device) + torch.empty(2, device=device)
    _require_effect(result.device.type == torch.device(device).type, f"a fake result is on {result.device}")
