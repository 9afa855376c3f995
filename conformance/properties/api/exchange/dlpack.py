"""Behaviours of the exchange of tensors through DLPack."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.dlpack import from_dlpack, to_dlpack  # type: ignore[attr-defined]

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab

#: The module ``torch`` with annotation ``Any``, because the type stubs of torch do not export
#: ``from_dlpack``.
untyped: Any = torch


class DLPackOnly:
    """An object that exposes a tensor only through DLPack."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


def _device_if_capable(lab: Lab, capability: str) -> torch.device:
    """Return the Lab's device if the target declares a capability, and otherwise the CPU."""
    return lab.device if lab.target.capable(capability) else torch.device("cpu")


@behaviour(
    "exchange",
    dtypes=ALL,
    capabilities=("dlpack", "storage"),
    must_detect=("value",),
    page="generated/torch.from_dlpack.html",
)
def dlpack_round_trip(lab: Lab) -> None:
    """A tensor that is exported through DLPack and imported again keeps its values, dtype, shape, strides,
    device and memory.
    """
    base = lab.integers(4, 5) + lab.integers(4, 5)
    ways = {
        "a capsule": lambda x: from_dlpack(to_dlpack(x)),
        "the protocol": untyped.from_dlpack,
        "a capsule of the protocol": lambda x: untyped.from_dlpack(x.__dlpack__()),
        "another object": lambda x: untyped.from_dlpack(DLPackOnly(x)),
    }
    parts = {
        "whole": base,
        "row": base[1],
        "column": base[:, 2],
        "transposed": base.t(),
        "strided": base[::2, 1::2],
        "one of a strided": base.view(-1)[::3][:1],
        "scalar": base[2, 2],
    }
    for way, call in ways.items():
        for name, part in parts.items():
            result = call(part)
            lab.same(f"{name} by {way}", result, strides=True) if part.numel() > 1 else lab.same(
                f"{name} by {way}", result
            )
            lab.holds(f"{name} by {way} keeps its address", result.data_ptr() == part.data_ptr())
    shared = untyped.from_dlpack(base)
    shared[0].zero_()
    lab.same("after a write through the other", base)
    lab.same("nothing", untyped.from_dlpack(base[:0]).shape)
    lab.same("its device", [len(base.__dlpack_device__()), isinstance(int(base.__dlpack_device__()[0]), int)])


@behaviour(
    "exchange",
    capabilities=("dlpack", "sparse"),
    must_detect=("error", "message"),
    page="https://data-apis.org/array-api/latest/API_specification/generated/array_api.array.__dlpack__.html",
    ground="The standard asks for BufferError if data cannot be exported",
)
def dlpack_refusals(lab: Lab) -> None:
    """DLPack export raises an error for a tensor that requires grad, is conjugate, is quantized or is sparse.
    It also raises an error for a wrong device, and on the CPU for a stream.
    """
    lab.holds("plain tensors can be described", lab.integers(3).__dlpack__() is not None)
    graded = torch.ones(3, device=lab.device, requires_grad=True)
    with lab.parity("No page says that a tensor which requires grad cannot be exported"):
        lab.raises("gradients", graded.__dlpack__, BufferError, match="require gradient")
    turned = torch.tensor([1 + 1j], device=_device_if_capable(lab, "conj_neg_views")).conj()
    lab.raises("a conjugate", turned.__dlpack__, BufferError, match="conjugate bit", type_is_documented=True)
    sparse = torch.eye(2, device=_device_if_capable(lab, "sparse")).to_sparse()
    lab.raises(
        "a sparse tensor",
        sparse.__dlpack__,
        BufferError,
        match="strided",
        type_is_documented=True,
    )
    ones = torch.ones(3, device=lab.device)
    with lab.parity("The standard leaves stream objects open to agreements between libraries"):
        lab.raises("an object as a stream", lambda: ones.__dlpack__(stream=object()), TypeError)
    lab.raises(
        "a stream of the host",
        lambda: torch.ones(3).__dlpack__(stream=0),
        AssertionError,
        match="stream should be None",
    )
    lab.raises("a number", lambda: untyped.from_dlpack(3), Exception)
    lab.raises(
        "a device of no kind",
        lambda: ones.__dlpack__(max_version=(1, 0), dl_device=(4711, 0)),  # type: ignore[arg-type]
        BufferError,
        match="(?i)unsupported device_type",
        type_is_documented=True,
    )
    quantized = torch.quantize_per_tensor(
        torch.ones(2, device=_device_if_capable(lab, "quantized")), 0.1, 0, torch.qint8
    )
    lab.raises(
        "a quantized tensor",
        lambda: untyped.from_dlpack(quantized),
        BufferError,
        RuntimeError,
        match="not supported by dlpack|quantized",
    )
    lab.same("detached", untyped.from_dlpack(graded.detach()))


@behaviour(
    "exchange",
    capabilities=("dlpack", "storage"),
    must_detect=("value",),
    page="generated/torch.from_dlpack.html",
    ground=(
        "The array API standard, to which the page of __dlpack__ refers, says what copy=False and device mean"
    ),
)
def dlpack_copies(lab: Lab) -> None:
    """``from_dlpack`` shares memory unless ``copy=True``. If ``device=`` names a different device, it copies
    if necessary. ``copy=False`` is then refused, unless the memory can be shared.
    """
    base = torch.arange(5.0, device=lab.device)
    lab.holds("it can be described", base.__dlpack__() is not None)
    lab.holds("no choice shares", untyped.from_dlpack(base).data_ptr() == base.data_ptr())
    lab.holds("copy=False shares", untyped.from_dlpack(base, copy=False).data_ptr() == base.data_ptr())
    lab.holds(
        "its own device shares", untyped.from_dlpack(base, device=base.device).data_ptr() == base.data_ptr()
    )
    copied = untyped.from_dlpack(base, copy=True)
    lab.holds("copy=True does not", copied.data_ptr() != base.data_ptr())
    copied.add_(1)
    lab.expect("the source after a write to the copy", base + 0, [0.0, 1.0, 2.0, 3.0, 4.0])
    lab.expect("the copy", copied, [1.0, 2.0, 3.0, 4.0, 5.0])
    versions = {
        None: "dltensor",
        (0, 8): "dltensor",
        (1, 0): "dltensor_versioned",
        (2, 0): "dltensor_versioned",
    }
    for version, name in versions.items():
        capsule = base.__dlpack__(max_version=version) if version else base.__dlpack__()
        with lab.parity("The standard allows a capsule of another version than max_version"):
            lab.expect(f"the capsule of {version}", f'"{name}"' in str(capsule), True)
        lab.same(f"its tensor of {version}", untyped.from_dlpack(capsule))
        with lab.parity("The page of to_dlpack calls a second use of a capsule undefined"):
            lab.raises(f"the capsule of {version} again", lambda: untyped.from_dlpack(capsule))
    host = torch.arange(3.0)
    with lab.parity("The page of torch.tensor does not name objects with __dlpack__"):
        lab.same("a tensor of something wrapped", torch.tensor(DLPackOnly(host), device=lab.device))
    with lab.parity("The page of asarray names DLPack capsules, not objects with __dlpack__"):
        lab.same("asarray of something wrapped", torch.asarray(DLPackOnly(base)))
        lab.holds(
            "asarray shares with something wrapped",
            torch.asarray(DLPackOnly(base)).data_ptr() == base.data_ptr(),
        )
    # In torch 2.13, ``asarray`` with ``copy=True`` copies a DLPack capsule, but not an object with
    # ``__dlpack__``.
    apart = torch.asarray(base.__dlpack__(), copy=True)
    lab.holds("asarray of a capsule with copy=True does not", apart.data_ptr() != base.data_ptr())
    lab.expect("to the host", untyped.from_dlpack(base, device="cpu"), [0.0, 1.0, 2.0, 3.0, 4.0], host=True)
    try:
        lent = untyped.from_dlpack(base, device="cpu", copy=False)
    except (ValueError, BufferError, RuntimeError):
        honest = lab.device.type != "cpu"
    else:
        # A device with unified memory can lend its memory to the host.
        base.add_(1)
        honest = torch.equal(lent, base.cpu())
    lab.holds("to the host without a copy is refused, or shares", honest)
