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


def _device_if_capable_else_cpu(lab: Lab, capability: str) -> torch.device:
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
            lab.holds(f"{name} by {way} has the same address", result.data_ptr() == part.data_ptr())
    shared = untyped.from_dlpack(base)
    shared[0].zero_()
    lab.same("the tensor after a write into the imported tensor", base)
    lab.same("nothing", untyped.from_dlpack(base[:0]).shape)
    lab.same("its device", [len(base.__dlpack_device__()), isinstance(int(base.__dlpack_device__()[0]), int)])


@behaviour(
    "exchange",
    capabilities=("dlpack", "sparse"),
    must_detect=("error", "message"),
    page="https://data-apis.org/array-api/latest/API_specification/generated/array_api.array.__dlpack__.html",
    ground="The standard requires BufferError if data cannot be exported",
)
def dlpack_refusals(lab: Lab) -> None:
    """DLPack export raises an error for a tensor that requires grad, is conjugate, is quantized or is sparse.
    A wrong device is an error too, and so is a stream for a CPU tensor.
    """
    lab.holds("an ordinary tensor can be exported", lab.integers(3).__dlpack__() is not None)
    graded = torch.ones(3, device=lab.device, requires_grad=True)
    with lab.parity("No page says that a tensor that requires grad cannot be exported"):
        lab.raises("gradients", graded.__dlpack__, BufferError, match="require gradient")
    turned = torch.tensor([1 + 1j], device=_device_if_capable_else_cpu(lab, "conj_neg_views")).conj()
    lab.raises("a conjugate", turned.__dlpack__, BufferError, match="conjugate bit", type_is_documented=True)
    sparse = torch.eye(2, device=_device_if_capable_else_cpu(lab, "sparse")).to_sparse()
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
        "a stream for a CPU tensor",
        lambda: torch.ones(3).__dlpack__(stream=0),
        AssertionError,
        match="stream should be None",
    )
    lab.raises("a number", lambda: untyped.from_dlpack(3), Exception)
    lab.raises(
        "a device type that does not exist",
        lambda: ones.__dlpack__(max_version=(1, 0), dl_device=(4711, 0)),  # type: ignore[arg-type]
        BufferError,
        match="(?i)unsupported device_type",
        type_is_documented=True,
    )
    quantized = torch.quantize_per_tensor(
        torch.ones(2, device=_device_if_capable_else_cpu(lab, "quantized")), 0.1, 0, torch.qint8
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
    """``from_dlpack`` shares memory unless ``copy=True``. If ``device=`` is a different device that cannot
    share the memory, ``from_dlpack`` copies the data, and refuses ``copy=False``.
    """
    base = torch.arange(5.0, device=lab.device)
    lab.holds("the tensor can be exported", base.__dlpack__() is not None)
    lab.holds(
        "from_dlpack without copy= shares memory", untyped.from_dlpack(base).data_ptr() == base.data_ptr()
    )
    lab.holds(
        "from_dlpack with copy=False shares memory",
        untyped.from_dlpack(base, copy=False).data_ptr() == base.data_ptr(),
    )
    lab.holds(
        "from_dlpack with the tensor's own device shares memory",
        untyped.from_dlpack(base, device=base.device).data_ptr() == base.data_ptr(),
    )
    copied = untyped.from_dlpack(base, copy=True)
    lab.holds("copy=True does not share memory", copied.data_ptr() != base.data_ptr())
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
        with lab.parity("The standard allows a capsule whose version differs from max_version"):
            lab.expect(f"the capsule of {version}", f'"{name}"' in str(capsule), True)
        lab.same(f"the tensor of the capsule of {version}", untyped.from_dlpack(capsule))
        with lab.parity("The page of to_dlpack calls a second use of a capsule undefined"):
            lab.raises(f"a second use of the capsule of {version}", lambda: untyped.from_dlpack(capsule))
    host = torch.arange(3.0)
    with lab.parity("The page of torch.tensor does not mention objects with __dlpack__"):
        lab.same(
            "torch.tensor of an object with __dlpack__", torch.tensor(DLPackOnly(host), device=lab.device)
        )
    with lab.parity("The page of asarray mentions DLPack capsules, but not objects with __dlpack__"):
        lab.same("asarray of an object with __dlpack__", torch.asarray(DLPackOnly(base)))
        lab.holds(
            "asarray shares memory with an object with __dlpack__",
            torch.asarray(DLPackOnly(base)).data_ptr() == base.data_ptr(),
        )
    # In torch 2.13, ``asarray`` with ``copy=True`` copies a DLPack capsule, but not an object with
    # ``__dlpack__``.
    apart = torch.asarray(base.__dlpack__(), copy=True)
    lab.holds(
        "asarray of a capsule with copy=True does not share memory", apart.data_ptr() != base.data_ptr()
    )
    lab.expect("to the host", untyped.from_dlpack(base, device="cpu"), [0.0, 1.0, 2.0, 3.0, 4.0], host=True)
    try:
        lent = untyped.from_dlpack(base, device="cpu", copy=False)
    except (ValueError, BufferError, RuntimeError):
        honest = lab.device.type != "cpu"
    else:
        # The import succeeds on a device that shares its memory with the host.
        base.add_(1)
        honest = torch.equal(lent, base.cpu())
    lab.holds("copy=False to the host is refused or shares memory", honest)
