"""Check storages of tensors: sizes, sharing, copies, element access, errors, and the meta device."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab


def typed_storage_of(tensor: torch.Tensor) -> torch.TypedStorage:
    """Return the typed storage of a tensor. The deprecation warning is suppressed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        storage: torch.TypedStorage = tensor.storage()
    return storage


@behaviour("storage", dtypes=ALL, level="core", must_detect=("value", "shape"), capabilities=("storage",))
def untyped_storages(lab: Lab) -> None:
    """A tensor's storage has the tensor's bytes and device. Views of the tensor share the storage, and the
    storage outlives the tensor.
    """
    base = lab.integers(3, 4)
    storage = base.untyped_storage()
    lab.same("bytes", [storage.nbytes(), storage.size(), len(storage), base.element_size() * base.numel()])
    lab.holds("the storage is on the device", storage.device.type == lab.device.type)
    with lab.parity("No page says what is_shared returns for a device"):
        lab.expect(
            "kinds", [storage.is_sparse, storage.is_shared() and lab.device.type == "cpu"], [False, False]
        )
    lab.shares("a tensor and a row", base, base[1])
    lab.holds("a view has the storage of its base", base[1].untyped_storage().nbytes() == storage.nbytes())
    with lab.parity("The page says that the two addresses need not match"):
        lab.holds("storage and tensor have one address", storage.data_ptr() == base.data_ptr())
    later = torch.empty(0, dtype=lab.dtype, device=lab.device).set_(storage, 4, (4,), (1,))
    lab.same("a tensor over a part of the storage", later)
    expected = base.clone()
    del base
    lab.same(
        "the storage after the tensor was deleted",
        torch.empty(0, dtype=lab.dtype, device=lab.device).set_(storage).view(3, 4),
    )
    lab.holds("the storage keeps its values after the tensor was deleted", torch.equal(later, expected[1]))
    twice = storage.clone()
    lab.holds(
        "a clone has its own memory",
        twice.data_ptr() != storage.data_ptr() and twice.nbytes() == storage.nbytes(),
    )
    later.zero_()
    lab.same("the clone", torch.empty(0, dtype=lab.dtype, device=lab.device).set_(twice))
    lab.same("the original", torch.empty(0, dtype=lab.dtype, device=lab.device).set_(storage))


@behaviour("storage", level="core", must_detect=("value", "error"), capabilities=("storage",))
def storage_copies_and_sizes(lab: Lab) -> None:
    """Storages can be filled, copied between CPU and device, deep-copied and resized. Resizing preserves the
    bytes.
    """
    base = torch.arange(6, dtype=torch.uint8, device=lab.device) + 1
    storage = base.untyped_storage()
    lab.expect("as a list", storage.tolist(), [1, 2, 3, 4, 5, 6])
    host = storage.cpu()
    lab.expect("on the host", [host.device.type, host.tolist()], ["cpu", [1, 2, 3, 4, 5, 6]])
    new_storage: Any = torch.UntypedStorage(6, device=lab.device)
    lab.expect(
        "bytes and device of a new storage",
        [new_storage.nbytes(), new_storage.device.type == lab.device.type],
        [6, True],
    )
    new_storage.copy_(storage)
    lab.expect("copied", new_storage.tolist(), [1, 2, 3, 4, 5, 6])
    new_storage.copy_(host)
    lab.expect("copied from the host", new_storage.tolist(), [1, 2, 3, 4, 5, 6])
    host.fill_(0)
    host.copy_(new_storage)
    lab.expect("and back", host.tolist(), [1, 2, 3, 4, 5, 6])
    new_storage.fill_(7)
    lab.expect("filled", new_storage.tolist(), [7] * 6)
    with lab.parity("The page lists resize_ without saying what it does"):
        storage.resize_(8)
        lab.expect("larger", [storage.nbytes(), storage.tolist()[:6]], [8, [1, 2, 3, 4, 5, 6]])
        lab.expect("the tensor over it", base.clone(), [1, 2, 3, 4, 5, 6])
        storage.resize_(0)
        lab.expect("nothing", [storage.nbytes(), storage.tolist()], [0, []])
    with lab.parity("No page says that a copy between different sizes is refused"):
        lab.raises(
            "a copy from a storage of another size",
            lambda: new_storage.copy_(torch.UntypedStorage(3, device=lab.device)),
        )
    with lab.consistent("A deep copy must agree with the original"):
        lab.same("deeply copied", copy.deepcopy(new_storage).tolist())


@behaviour("storage", dtypes=ALL, must_detect=("value", "dtype"), capabilities=("storage",))
def typed_storages(lab: Lab) -> None:
    """A typed storage (deprecated) reads, writes and casts elements of the tensor's dtype. Its length is the
    number of elements.
    """
    base = lab.put([1, 0, 1, 1, 0, 1], dtype=lab.dtype)
    storage = typed_storage_of(base.view(2, 3)[1:])
    lab.same("facts", [storage.size(), len(storage), storage.nbytes(), storage.element_size(), storage.dtype])
    lab.holds("the typed storage is on the device", storage.device.type == lab.device.type)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lab.expect("as a list", storage.tolist(), [1, 0, 1, 1, 0, 1])
        storage[1] = 1
        lab.expect("after one was set", base + torch.zeros_like(base), [1, 1, 1, 1, 0, 1])
        storage[0:2] = 0
        lab.expect("after two were set", base + torch.zeros_like(base), [0, 0, 1, 1, 0, 1])
        lab.expect("read one by one", [storage[2], storage[-1]], [1, 1])
        storage.fill_(1)
        lab.expect("after all were", base + torch.zeros_like(base), [1] * 6)
        lab.expect("iterated", list(storage), [1] * 6)
        tensor = torch.empty(0, dtype=lab.dtype, device=lab.device).set_(storage, 1, (2, 2), (2, 1))
        lab.same("a tensor over it", tensor)
        lab.shares("both", base, tensor)
        for method_name in (
            "float",
            "double",
            "int",
            "long",
            "half",
            "bool",
            "byte",
            "char",
            "short",
            "complex_float",
        ):
            cast = getattr(storage, method_name)()
            lab.same(f"cast by {method_name}", [cast.dtype, cast.tolist()])
        lab.same("cloned", storage.clone().tolist())
        lab.same("on the host", [storage.cpu().device.type, storage.cpu().tolist()])


@behaviour(
    "storage",
    must_detect=("error",),
    capabilities=("storage",),
    basis="parity",
    ground="No page says which indices, values and arguments storages refuse",
)
def storage_refusals(lab: Lab) -> None:
    """Storages raise an error for indices out of range, for values and arguments of wrong types, and for
    negative sizes.
    """
    base = lab.integers(4)
    storage = typed_storage_of(base)

    def call_without_warnings(call: Callable[[], Any]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()

    lab.raises("beyond the end", lambda: call_without_warnings(lambda: storage[4]), IndexError)
    lab.raises("beyond the start", lambda: call_without_warnings(lambda: storage[-5]), IndexError)
    lab.raises(
        "setting beyond the end", lambda: call_without_warnings(lambda: storage.__setitem__(4, 0)), IndexError
    )
    lab.raises("by a string", lambda: call_without_warnings(lambda: storage["a"]), RuntimeError, TypeError)
    lab.raises(
        "setting a string",
        lambda: call_without_warnings(lambda: storage.__setitem__(0, "a")),
        TypeError,
        RuntimeError,
        ValueError,
    )
    lab.raises("a negative size", lambda: torch.UntypedStorage(-1, device=lab.device))
    lab.raises(
        "resized to a negative size", lambda: base.untyped_storage().resize_(-1), RuntimeError, ValueError
    )
    lab.raises("a size and a sequence", lambda: torch.UntypedStorage(1, [1], device=lab.device), TypeError)
    lab.raises("an unknown keyword", lambda: torch.UntypedStorage(1, nosuch=2), TypeError)


@behaviour("storage", must_detect=("error",), page="meta.html")
def meta_storages(lab: Lab) -> None:
    """Storages of meta tensors have sizes and no content. Reading the content raises an error."""
    like = torch.empty_like(lab.integers(3, 2), device="meta")
    storage = like.untyped_storage()
    with lab.parity("No page says that a meta storage has the address 0"):
        lab.expect("facts", [storage.nbytes(), storage.device.type, storage.data_ptr()], [24, "meta", 0])
    lab.expect("a part", like[1:].untyped_storage().nbytes(), 24)
    tensor = torch.empty(0, device="meta").set_(storage, 2, (2,), (1,))
    lab.expect("a tensor over it", [tensor.shape, tensor.storage_offset()], [torch.Size([2]), 2])
    lab.raises("its values", lambda: like.tolist(), NotImplementedError, RuntimeError)
    lab.raises("its bytes", lambda: storage.tolist(), NotImplementedError, RuntimeError)
    lab.raises(
        "copied to the device",
        lambda: like.to(lab.device),
        NotImplementedError,
        match="(?i)cannot copy out of meta",
        type_is_documented=True,
        text_is_documented=True,
    )
    lab.same("cloned", [like.clone().shape, like.clone().device.type])
    zeros_on_device = torch.empty_like(like, device=lab.device).zero_()
    lab.same("zeros like a meta tensor, on the device", zeros_on_device)


@behaviour(
    "storage",
    must_detect=("alias",),
    level="core",
    dtypes=("float32", "int64", "bool"),
    page="tensor_view.html",
)
def storages_of_views(lab: Lab) -> None:
    """Views, ``detach`` and in-place operations use the storage of their tensor. Out-of-place operations,
    ``clone`` and ``deepcopy`` create a new storage.
    """
    base = lab.integers(4, 4)
    views = {
        "view": base.view(16),
        "transpose": base.t(),
        "slice": base[1:3],
        "select": base[0],
        "expand": base[:1].expand(4, 4),
        "detach": base.detach(),
        "unsqueeze": base.unsqueeze(0),
        "diagonal": base.diagonal(),
        "split": base.split(2)[1],
        "unfold": base.unfold(0, 2, 1),
        "narrow": base.narrow(1, 1, 2),
        "reshape": base.reshape(2, 8),
        "empty": base[4:],
    }
    for name, view in views.items():
        with (
            lab.parity("The page of reshape advises not to depend on whether the result is a view or a copy")
            if name == "reshape"
            else contextlib.nullcontext()
        ):
            lab.shares(f"a tensor and its {name}", base, view)
        lab.same(name, view, strides=True)
    for name, tensor in {
        "clone": base.clone(),
        "contiguous of a transposed": base.t().contiguous(),
        "deepcopy": copy.deepcopy(base),
        "sum with zero": base + torch.zeros_like(base),
        "reshape of a transposed": base.t().reshape(16),
    }.items():
        lab.apart(f"a tensor and its {name}", base, tensor)
        lab.same(name, tensor)
    views["view"].zero_()
    lab.same("after a write through a view", base)
