"""One small trial per capability. A trial shows that calls which need the capability do not raise an error.
The properties of the suite check the results of such calls.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.dlpack

from conformance.doctor.registration_checks import MODULE_FUNCTIONS
from conformance.framework.calls import one_line

Trial = Callable[[str], object]

_TRIALS: dict[str, Trial] = {}
#: The capabilities that have a trial, in the order in which a new backend needs them: first the capabilities
#: that most results need, then training, asynchronous work, and the other capabilities by area.
ORDER = (
    *("views", "inplace", "non_contiguous", "out_variants", "data_dependent_shapes", "channels_last"),
    *("autograd", "random", "generator", "asynchronous", "streams", "events", "event_timing"),
    *("record_stream", "pinned_memory", "memory_statistics", "serialization", "fake_tensors", "autocast"),
    *("grad_scaler", "foreach", "foreach_optimizers", "fused_optimizers", "capturable_optimizers"),
    *("double_backward", "forward_ad", "functorch", "conj_neg_views", "dlpack", "graphs"),
    *("multiple_devices", "peer_copy", "sparse", "sparse_compressed", "nested", "quantized"),
)


class NoEffect(Exception):
    """A call of a trial returned without an error, but did not have its effect."""


def _trial(capability: str) -> Callable[[Trial], Trial]:
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
    """Run the trial of a capability on a device; return its error message, or an empty text on success."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _TRIALS[capability](device)
            _expect_functions(capability, device)
    except Exception as error:
        return str(error) if isinstance(error, NoEffect) else one_line(error)
    return ""


def _expect_functions(capability: str, device: str) -> None:
    """Raise NoEffect if the device's module does not have a function that this capability requires."""
    if torch.device(device).type == "cpu":
        return
    module = torch.get_device_module(device)
    absent = [
        name
        for name, needed_by in MODULE_FUNCTIONS.items()
        if needed_by == capability and not hasattr(module, name)
    ]
    _expect(not absent, f"{module.__name__} does not have {' and '.join(absent)}, which torch calls")


def _expect(holds: bool, text: str) -> None:
    if not holds:
        raise NoEffect(text)


def _ones(device: str, *shape: int) -> torch.Tensor:
    return torch.ones(shape or (2,)).to(device)


def _leaf_tensor(device: str) -> torch.Tensor:
    return _ones(device).requires_grad_()


def _require_accelerator(device: str) -> torch.device:
    _expect(torch.device(device).type != "cpu", "the CPU is not an accelerator")
    return torch.device(device)


@_trial("asynchronous")
def _asynchronous(device: str) -> None:
    # A trial cannot show that the device works asynchronously. It shows that waiting for work succeeds.
    _require_accelerator(device)
    torch.accelerator.synchronize()


@_trial("autograd")
def _autograd(device: str) -> None:
    leaf = _leaf_tensor(device)
    (leaf * leaf).sum().backward()  # type: ignore[no-untyped-call]
    _expect(leaf.grad is not None, "backward left no gradient")


@_trial("double_backward")
def _double_backward(device: str) -> None:
    leaf = _leaf_tensor(device)
    (first,) = torch.autograd.grad((leaf * leaf * leaf).sum(), leaf, create_graph=True)
    torch.autograd.grad(first.sum(), leaf)


@_trial("forward_ad")
def _forward_ad(device: str) -> None:
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(_ones(device), _ones(device))  # type: ignore[no-untyped-call]
        tangent = forward_ad.unpack_dual(dual * dual).tangent  # type: ignore[no-untyped-call]
        _expect(tangent is not None, "the result has no tangent")


@_trial("out_variants")
def _out_variants(device: str) -> None:
    torch.add(_ones(device), _ones(device), out=_ones(device))


@_trial("inplace")
def _inplace(device: str) -> None:
    _ones(device).add_(_ones(device))


@_trial("views")
def _views(device: str) -> None:
    base = _ones(device, 2, 2)
    view = base.t()[0]
    _expect(view.untyped_storage()._cdata == base.untyped_storage()._cdata, "a view has its own memory")


@_trial("non_contiguous")
def _non_contiguous(device: str) -> None:
    base = _ones(device, 4, 4)
    (base.t()[1::2] + base[1::2]).cpu()


@_trial("channels_last")
def _channels_last(device: str) -> None:
    image = _ones(device, 1, 2, 2, 2).contiguous(memory_format=torch.channels_last)
    _expect(image.is_contiguous(memory_format=torch.channels_last), "channels_last strides are lost")


@_trial("conj_neg_views")
def _conj_neg_views(device: str) -> None:
    torch._neg_view(_ones(device)).resolve_neg().cpu()


@_trial("data_dependent_shapes")
def _data_dependent_shapes(device: str) -> None:
    _ones(device).nonzero().cpu()


@_trial("sparse")
def _sparse(device: str) -> None:
    torch.eye(2).to_sparse().to(device).to_dense()


@_trial("sparse_compressed")
def _sparse_compressed(device: str) -> None:
    torch.eye(2).to_sparse_csr().to(device).to_dense()


@_trial("quantized")
def _quantized(device: str) -> None:
    torch.quantize_per_tensor(_ones(device), 0.1, 0, torch.quint8).dequantize().cpu()


@_trial("nested")
def _nested(device: str) -> None:
    parts = [_ones(device), _ones(device, 3)]
    torch.nested.to_padded_tensor(torch.nested.nested_tensor(parts), 0.0).cpu()


@_trial("foreach")
def _foreach(device: str) -> None:
    torch._foreach_add([_ones(device)], 1.0)


@_trial("functorch")
def _functorch(device: str) -> None:
    torch.func.vmap(lambda row: row * row)(_ones(device, 2, 2)).cpu()


@_trial("random")
def _random(device: str) -> None:
    torch.rand(2, device=device).cpu()


@_trial("generator")
def _generator(device: str) -> None:
    generator = torch.Generator(device).manual_seed(1)
    torch.rand(2, device=device, generator=generator)


@_trial("streams")
def _streams(device: str) -> None:
    stream = torch.Stream(_require_accelerator(device))
    before = torch.accelerator.current_stream()
    torch.accelerator.set_stream(stream)
    torch.accelerator.set_stream(before)
    stream.synchronize()


@_trial("events")
def _events(device: str) -> None:
    _recorded_event(torch.Event(_require_accelerator(device)))


def _recorded_event(event: Any) -> Any:
    event.record(torch.accelerator.current_stream())
    event.synchronize()
    return event


@_trial("event_timing")
def _event_timing(device: str) -> None:
    first, second = (torch.Event(_require_accelerator(device), enable_timing=True) for _ in range(2))
    _recorded_event(first)
    _recorded_event(second)
    first.elapsed_time(second)


@_trial("record_stream")
def _record_stream(device: str) -> None:
    accelerator = _require_accelerator(device)
    _ones(device).record_stream(torch.Stream(accelerator))


@_trial("pinned_memory")
def _pinned_memory(device: str) -> None:
    _require_accelerator(device)
    _expect(torch.empty(1).pin_memory().is_pinned(), "is_pinned() is False for a pinned tensor")


@_trial("memory_statistics")
def _memory_statistics(device: str) -> None:
    _require_accelerator(device)
    before = torch.accelerator.memory_allocated()
    tensor = _ones(device, 1024)
    _expect(torch.accelerator.memory_allocated() > before, "memory_allocated does not grow with a tensor")
    del tensor


@_trial("multiple_devices")
def _multiple_devices(device: str) -> None:
    _require_accelerator(device)
    count = torch.accelerator.device_count()
    _expect(count > 1, f"there is {count} device")


@_trial("peer_copy")
def _peer_copy(device: str) -> None:
    _multiple_devices(device)
    kind = torch.device(device).type
    _ones(f"{kind}:0").to(f"{kind}:1").cpu()


@_trial("graphs")
def _graphs(device: str) -> None:
    _require_accelerator(device)
    _expect(
        hasattr(torch.accelerator, "Graph"),
        "torch.accelerator.Graph does not exist, and the target file does not name a hook for graphs",
    )
    torch.accelerator.Graph()


@_trial("autocast")
def _autocast(device: str) -> None:
    kind = torch.device(device).type
    with torch.autocast(kind, dtype=torch.bfloat16):
        product = _ones(device, 2, 2) @ _ones(device, 2, 2)
    _expect(product.dtype == torch.bfloat16, f"a product under autocast is {product.dtype}, not bfloat16")


@_trial("grad_scaler")
def _grad_scaler(device: str) -> None:
    scaler = torch.amp.GradScaler(torch.device(device).type, enabled=True)
    leaf = _leaf_tensor(device)
    optimizer = torch.optim.SGD([leaf], lr=0.1)
    scaler.scale((leaf * leaf).sum()).backward()  # type: ignore[no-untyped-call]
    scaler.step(optimizer)
    scaler.update()


def _optimizer_step(device: str, **options: bool) -> None:
    leaf = _leaf_tensor(device)
    leaf.grad = _ones(device)
    torch.optim.AdamW([leaf], **options).step()  # type: ignore[arg-type]


@_trial("fused_optimizers")
def _fused_optimizers(device: str) -> None:
    _optimizer_step(device, fused=True)


@_trial("capturable_optimizers")
def _capturable_optimizers(device: str) -> None:
    _require_accelerator(device)
    _optimizer_step(device, capturable=True)


@_trial("foreach_optimizers")
def _foreach_optimizers(device: str) -> None:
    _optimizer_step(device, foreach=True)


@_trial("serialization")
def _serialization(device: str) -> None:
    file = io.BytesIO()
    torch.save(_ones(device), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    _expect(loaded.device.type == torch.device(device).type, f"a saved tensor is loaded to {loaded.device}")


@_trial("dlpack")
def _dlpack(device: str) -> None:
    torch.utils.dlpack.from_dlpack(_ones(device))


@_trial("fake_tensors")
def _fake_tensors(device: str) -> None:
    from conformance import torch_testing_internals

    with torch_testing_internals.fake_tensor_mode():
        result = torch.empty(2, device=device) + torch.empty(2, device=device)
    _expect(result.device.type == torch.device(device).type, f"a fake result is on {result.device}")
