"""Behaviours of fake tensors, which have metadata but no memory: metadata of results, devices, refused reads
of values, and copies.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


def _metadata_of(value: Any, lab: Lab) -> list[Any]:
    """Return the metadata of a tensor: shape, dtype, whether it is on the Lab's device, and whether it is
    fake.
    """
    return [
        value.shape,
        value.dtype,
        value.device.type == lab.device.type,
        isinstance(value, FakeTensor),
    ]


@behaviour("fake", level="core", must_detect=("dtype", "shape"))
def fake_results(lab: Lab) -> None:
    """Operators on fake tensors return fake tensors with the shape, dtype and device of the real result."""
    x, y = lab.integers(2, 3, 4), lab.integers(4, 2)
    calls = {
        "sum": lambda a, b: a.sum(1),
        "product": lambda a, b: a @ b,
        "view": lambda a, b: a.transpose(0, 2)[1:],
        "promotion": lambda a, b: a + torch.ones(4, dtype=lab.other_float, device=a.device),
        "number": lambda a, b: a * 2.5,
        "comparison": lambda a, b: a > 0,
        "cat": lambda a, b: torch.cat((a, a), 1),
        "softmax": lambda a, b: a.softmax(-1),
        "conversion": lambda a, b: a.to(torch.int64),
        "nan_to_num": lambda a, b: a.nan_to_num(),
        "slice": lambda a, b: a[:, 1, ::2],
        "zero dimensions": lambda a, b: a.sum() + b,
        "scalar on the host": lambda a, b: a + torch.tensor(2.0),
        "like": lambda a, b: torch.zeros_like(a, dtype=torch.float16),
        "new": lambda a, b: a.new_ones(3),
        "full": lambda a, b: torch.full((2, 3), 4, device=a.device),
        "type_as": lambda a, b: b.type_as(a.to(lab.other_float)),
        "contiguous": lambda a, b: a.transpose(0, 1).contiguous(),
        "adaptive pool": lambda a, b: torch.nn.functional.adaptive_avg_pool1d(a, 2),
        "interpolation": lambda a, b: torch.nn.functional.interpolate(a[None], (3, 5), mode="bilinear"),
        "expanded": lambda a, b: a[:1].expand(5, 3, 4),
    }
    for name, call in calls.items():
        real = call(x, y)
        with FakeTensorMode() as mode:
            fake = call(mode.from_tensor(x), mode.from_tensor(y))
        lab.same(f"fake {name}", _metadata_of(fake, lab))
        with lab.parity("The page says that strides vary with the device"):
            lab.same(f"strides of fake {name}", lab.strides(fake))
        lab.holds(f"{name} has the shape of the real result", fake.shape == real.shape)
        lab.holds(f"{name} has the dtype of the real result", fake.dtype == real.dtype)
        lab.holds(f"{name} has the device of the real result", fake.device == real.device)


@behaviour("fake", level="core", must_detect=())
def fake_devices(lab: Lab) -> None:
    """Inside FakeTensorMode, factories return fake tensors on the requested device. Operators on tensors of
    two devices raise the error that real tensors raise.
    """
    kind = lab.device.type
    with FakeTensorMode():
        for name, fake in {
            "empty": torch.empty(2, 3, device=lab.device),
            "by word": torch.rand(4, device=kind),
            "arange": torch.arange(0, 6, 2, device=lab.device),
            "tensor": torch.tensor([1.0, 2.0], device=lab.device),
            "randperm": torch.randperm(5, device=lab.device),
            "eye": torch.eye(3, device=lab.device),
            "moved": torch.empty(3).to(lab.device),
            "moved by new": torch.empty(2, device=lab.device).new_empty(4),
            "parameter": torch.nn.Parameter(torch.empty(2, device=lab.device)),
            "module": torch.nn.Linear(2, 3, device=lab.device)(torch.empty(1, 2, device=lab.device)),
        }.items():
            lab.same(name, _metadata_of(fake, lab))
        x, index = torch.empty(4, 3, device=lab.device), torch.tensor([0, 2])
        lab.same("indexed from the host", _metadata_of(x[index], lab))
        x[index] = 1.0
        x[0] = torch.tensor(3.0)
        lab.same("after writes", _metadata_of(x, lab))
        host = torch.empty(4, 3)
        host.copy_(x)
        lab.same("copied to the host", [host.device.type, isinstance(host, FakeTensor)])
        lab.same("back on the host", x.cpu().device.type)
        if kind != "cpu":
            refused = _raises_error(lambda: x + torch.empty(4, 3))
            out = _raises_error(lambda: torch.add(x, x, out=torch.empty(4, 3)))
        else:
            refused, out = True, True
        lab.same("a sum of two devices is refused", refused)
        lab.same("out= on a different device is refused", out)
        with lab.parity("No page says that meta tensors remain meta tensors inside FakeTensorMode"):
            lab.same("a meta tensor remains a meta tensor", torch.empty(2, device="meta").device.type)


def _raises_error(call: Any) -> bool:
    """Return whether a call raises any error."""
    try:
        call()
    except Exception:
        return True
    return False


@behaviour("fake", level="core", must_detect=("error",))
def fake_values_are_refused(lab: Lab) -> None:
    """An operation that needs the value of a fake tensor raises an error that names this reason. A constant
    that is created inside FakeTensorMode has a known value until it is changed.
    """
    with FakeTensorMode() as mode:
        x = mode.from_tensor(lab.integers(3))
        lab.raises("item", lambda: x[0].item(), DataDependentOutputException, RuntimeError)
        lab.raises("truth", lambda: bool(x.sum() > 0), DataDependentOutputException, RuntimeError)
        with lab.parity("No page says that nonzero is refused without a ShapeEnv"):
            lab.raises("nonzero", lambda: x.nonzero(), Exception)
        lab.raises("tolist", lambda: x.tolist(), Exception)
        constant = torch.tensor(4.0)
        lab.same("a constant", constant.item())
        constant.add_(1)
        lab.same("a changed constant", constant.item())
        constant.add_(torch.empty(()))
        lab.raises(
            "a constant after an unknown value was added",
            constant.item,
            DataDependentOutputException,
            RuntimeError,
        )
    second_mode = FakeTensorMode()
    foreign = second_mode.from_tensor(lab.integers(3))
    with FakeTensorMode() as mode, lab.parity("No page says that fake tensors of two modes cannot be mixed"):
        lab.raises(
            "fake tensors of two modes", lambda: mode.from_tensor(lab.integers(3)) + foreign, Exception
        )
    real = lab.integers(3)
    with FakeTensorMode():
        lab.raises(
            "a real tensor in the mode", lambda: real + 1, Exception, match="[Ff]ake", text_is_documented=True
        )
    with FakeTensorMode(allow_non_fake_inputs=True), lab.parity("No page describes allow_non_fake_inputs"):
        lab.same("unless that is allowed", _metadata_of(real + 1, lab))


@behaviour("fake", level="core", must_detect=("error",), capabilities=("storage", "strides", "autograd"))
def fake_copies(lab: Lab) -> None:
    """A FakeTensorMode always converts the same real tensor to the same fake tensor. Views share storage, and
    gradients are preserved. Fake tensors can be printed, copied and differentiated.
    """
    base = lab.integers(3, 4)
    view = base[1]
    leaf = lab.integers(2, requires_grad=True)
    mode = FakeTensorMode()
    fake_base, second_fake, part = mode.from_tensor(base), mode.from_tensor(base), mode.from_tensor(view)
    lab.holds("one real tensor gives the same fake tensor", fake_base is second_fake)
    lab.same("of views", [_metadata_of(part, lab), lab.strides(part)])
    lab.holds("views share a storage", fake_base.untyped_storage()._cdata == part.untyped_storage()._cdata)
    lab.holds(
        "fake tensors of different tensors share no storage",
        mode.from_tensor(base.clone()).untyped_storage()._cdata != fake_base.untyped_storage()._cdata,
    )
    fake = mode.from_tensor(leaf)
    lab.same("need of gradients", [fake.requires_grad, fake.is_leaf])
    with mode:
        (fake * 2).sum().backward()
    lab.same("its gradient", _metadata_of(fake.grad, lab))
    with lab.parity("No page says how a fake tensor is printed"):
        lab.same("printed", ["FakeTensor" in repr(fake_base), "size=(3, 4)" in repr(fake_base)])
    copied = copy.deepcopy(fake_base)
    with lab.parity("No page says what deepcopy of a fake tensor returns"):
        lab.same("deepcopy", _metadata_of(copied, lab))
    with mode:
        model = torch.nn.Sequential(torch.nn.Linear(4, 5, device=lab.device), torch.nn.ReLU())
        out = model(fake_base)
        out.sum().backward()
        lab.same("a module", _metadata_of(out, lab))
        lab.same("its gradients", [_metadata_of(p.grad, lab) for p in model.parameters()])
        recurrent = torch.nn.LSTM(4, 2, device=lab.device)
        lab.same("a recurrent module", _metadata_of(recurrent(fake_base[None])[0], lab))
    lab.raises("numpy() of a fake tensor", lambda: fake_base.cpu().numpy(), Exception)


@behaviour("fake", level="core", must_detect=("value", "error"), page="meta.html")
def meta_tensors(lab: Lab) -> None:
    """Operators on meta tensors compute only metadata such as shapes. Meta tensors hold no data, and cannot
    be moved to another device. ``zeros_like`` and ``to_empty`` create new tensors on that device.
    """
    x = torch.empty(2, 3, device="meta")
    real = lab.integers(2, 3)
    lab.same(
        "metadata of a real tensor moved to meta",
        [real.to("meta").shape, real.to("meta").dtype, lab.strides(real.to("meta"))],
    )
    lab.same("computed", [(x @ x.t()).shape, x.sum(0).shape, x.double().dtype, torch.cat((x, x)).shape])
    lab.same("huge", torch.empty(2**40, device="meta").add(1).shape)
    lab.raises(
        "to the device",
        lambda: x.to(lab.device),
        NotImplementedError,
        match="meta",
        type_is_documented=True,
        text_is_documented=True,
    )
    lab.raises("a number", lambda: x[0, 0].item(), RuntimeError, NotImplementedError)
    lab.raises("to the host", lambda: x.cpu(), NotImplementedError, type_is_documented=True)
    like = torch.zeros_like(x, device=lab.device)
    lab.same("zeros_like of a meta tensor on the device", like)
    module = torch.nn.Linear(3, 2, device="meta")
    lab.same("a module on meta", [p.device.type for p in module.parameters()])
    moved = module.to_empty(device=lab.device)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.fill_(1.0)
    lab.same("to_empty", moved(real).detach())
    filled = x.fill_(1.0)
    lab.holds("fill_ returns its argument", filled is x)
    with lab.parity("No page describes torch.ops.aten.fill"):
        lab.holds("fill returns a new tensor", torch.ops.aten.fill(x, 1.0) is not x)
    with torch.device("meta"):
        lab.same("in a context", torch.empty(3).device.type)
    lab.same("equal shapes of a meta and a real tensor", real.shape == x.shape)
