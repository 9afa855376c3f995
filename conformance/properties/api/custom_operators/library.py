"""Operators defined by a Library: derivatives, rules and kernels registered by name, and overrides."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.library import custom_op
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.custom_operators.definition import SPACE, unique_name


def _dispatch_key(lab: Lab) -> str:
    return str(torch._C._dispatch_key_for_device(lab.device.type))


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


@behaviour("custom-operators", capabilities=("autograd",), sees=("value", "error"))
def derivatives_by_name(lab: Lab) -> None:
    """register_autograd accepts the name or the overload of a Library's operator, with keywords and default
    arguments. Tensors by keyword and operators that write are refused.
    """
    x = lab.integers(3, requires_grad=True)

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    for way in ("name", "overload"):
        with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
            library.define("low_square(Tensor x) -> Tensor")
            library.impl("low_square", lambda x: x * x, _dispatch_key(lab))
            op = getattr(torch.ops, SPACE).low_square
            target = f"{SPACE}::low_square" if way == "name" else op.default
            torch.library.register_autograd(
                target, lambda ctx, grad: grad * 2 * ctx.saved_tensors[0], setup_context=keep, lib=library
            )
            lab.same(f"gradient by {way}", torch.autograd.grad(op(x).sum(), x)[0])
    with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
        library.define("low_scale(Tensor w, int x = 2, *, int y = 3, int z) -> Tensor")
        library.impl("low_scale", lambda w, x=2, *, y=3, z: w * x * y * z, _dispatch_key(lab))
        received: list[Any] = []

        def remember(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
            received.append([list(inputs[1:]), dict(keyword_only_inputs)])
            ctx.factor = inputs[1] * keyword_only_inputs["y"] * keyword_only_inputs["z"]

        torch.library.register_autograd(
            f"{SPACE}::low_scale",
            lambda ctx, grad: (grad * ctx.factor, None),
            setup_context=remember,
            lib=library,
        )
        op = getattr(torch.ops, SPACE).low_scale
        lab.expect("gradient with defaults", _gradient(op, x, z=5), [30.0] * 3)
        lab.expect("gradient with keywords", torch.autograd.grad(op(x, 4, y=1, z=5).sum(), x)[0], [20.0] * 3)
        lab.same("what was seen", received)
        library.define("low_keyword(Tensor x, *, Tensor y) -> Tensor")
        lab.raises(
            "tensors by keyword",
            lambda: torch.library.register_autograd(f"{SPACE}::low_keyword", lambda ctx, g: g, lib=library),
            NotImplementedError,
        )
        library.define("low_writes(Tensor(a!) x) -> ()")
        lab.raises(
            "an operator that writes",
            lambda: torch.library.register_autograd(f"{SPACE}::low_writes", lambda ctx, g: g, lib=library),
        )


def _gradient(op: Any, x: torch.Tensor, **options: Any) -> torch.Tensor:
    """Return the gradient of the sum of ``op(x, 2, **options)``."""
    return torch.autograd.grad(op(x, 2, **options).sum(), x)[0]


@behaviour("custom-operators", capabilities=("functorch", "autocast"), sees=("value",))
def rules_by_name(lab: Lab) -> None:
    """Kernels, batching rules, autocast and modes can be registered by name or overload for a Library's
    operator.
    """
    kind, x = lab.device.type, lab.integers(3)
    for way in ("name", "overload"):
        with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
            library.define("low_add(Tensor x, float y) -> Tensor")
            op = getattr(torch.ops, SPACE).low_add
            target = f"{SPACE}::low_add" if way == "name" else op.default
            torch.library.register_kernel(target, kind, lambda x, y: x + y, lib=library)
            lab.same(f"kernel by {way}", op(x, 2.0))
            torch.library.register_torch_dispatch(
                target, _Mode, lambda mode, function, types, args, kwargs: args[0] * 100, lib=library
            )
            with _Mode():
                lab.same(f"under a mode by {way}", op(x, 2.0))
            lab.same(f"without it by {way}", op(x, 3.0))
    for way in ("name", "overload"):
        with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
            library.define("low_cast(Tensor x) -> Tensor")
            library.impl("low_cast", lambda x: x * 2, _dispatch_key(lab))
            op = getattr(torch.ops, SPACE).low_cast
            target = f"{SPACE}::low_cast" if way == "name" else op.default
            torch.library.register_autocast(target, kind, torch.float16, lib=library)
            with torch.autocast(kind, dtype=torch.float16):
                lab.same(f"autocast by {way}", op(x))
            lab.same(f"outside by {way}", op(x))
    with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
        library.define("low_batch(Tensor w, int x = 2, *, int y = 3, float z) -> Tensor")
        library.impl("low_batch", lambda w, x=2, *, y=3, z: w * x * y * z, _dispatch_key(lab))
        calls: list[Any] = []

        def rule(info: Any, in_dims: Any, w: Any, x: int = 2, *, y: int = 3, z: float) -> Any:
            calls.append([info.batch_size, x, y, z])
            return w * x * y * z, 0

        torch.library.register_vmap(f"{SPACE}::low_batch", rule, lib=library)
        lab.same("batched", torch.vmap(getattr(torch.ops, SPACE).low_batch)(x, z=4.0))
        lab.same("calls", calls)


@behaviour("custom-operators", sees=("value", "error"))
def what_overrides_what(lab: Lab) -> None:
    """Fake and meta kernels override each other on request while their library is alive. They are refused for
    an operator with an implicit composite kernel.
    """
    space = getattr(torch.ops, SPACE)
    meta = torch.empty(3, device="meta")

    def double(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x])

    def sizes(op: Any) -> list[Any]:
        with FakeTensorMode() as mode:
            fake = op(mode.from_tensor(lab.integers(3))).shape
        return [fake, op(meta).shape]

    with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
        low_fake = unique_name("low_fake")
        library.define(f"{low_fake}(Tensor x) -> Tensor")
        torch.library.register_fake(f"{SPACE}::{low_fake}", lambda x: x * 1, lib=library)
        lab.same("a fake kernel", sizes(getattr(space, low_fake)))
        lab.raises(
            "a second one",
            lambda: torch.library.register_fake(
                f"{SPACE}::{low_fake}", double, lib=library, allow_override=False
            ),
            match="already",
        )
        torch.library.register_fake(f"{SPACE}::{low_fake}", double, lib=library, allow_override=True)
        lab.same("overridden", sizes(getattr(space, low_fake)))
        with torch.library._scoped_library(SPACE, "FRAGMENT") as inner:
            torch.library.register_fake(
                f"{SPACE}::{low_fake}", lambda x: x * 1, lib=inner, allow_override=True
            )
            lab.same("by an inner library", sizes(getattr(space, low_fake)))
        lab.same("after it", sizes(getattr(space, low_fake)))
        low_meta = unique_name("low_meta")
        library.define(f"{low_meta}(Tensor x) -> Tensor")
        library.impl(low_meta, lambda x: x * 1, "Meta")
        lab.same("a meta kernel", sizes(getattr(space, low_meta)))
        lab.raises(
            "a second meta kernel",
            lambda: library.impl(low_meta, double, "Meta", allow_override=False),
            match="already",
        )
        lab.raises(
            "a fake kernel beside it",
            lambda: torch.library.register_fake(
                f"{SPACE}::{low_meta}", double, lib=library, allow_override=False
            ),
            match="already",
        )
        library.impl(low_meta, double, "Meta", allow_override=True)
        lab.same("overridden meta kernel", sizes(getattr(space, low_meta)))
        library.define("low_explicit(Tensor x) -> Tensor")
        library.impl("low_explicit", lambda x: x * 1, "CompositeExplicitAutograd")
        lab.same("a composite serves both", sizes(space.low_explicit))
        torch.library.register_fake(f"{SPACE}::low_explicit", double, lib=library, allow_override=True)
        lab.same("until a fake kernel does", sizes(space.low_explicit))
        lab.same("the real one", space.low_explicit(lab.integers(3)))
        library.define("low_implicit(Tensor x) -> Tensor")
        library.impl("low_implicit", lambda x: x.sin(), "CompositeImplicitAutograd")
        lab.raises(
            "a fake kernel for an implicit composite",
            lambda: torch.library.register_fake(f"{SPACE}::low_implicit", double, lib=library),
            match="CompositeImplicitAutograd",
        )
        library.define("low_named.second(Tensor x) -> Tensor")
        torch.library.register_fake(f"{SPACE}::low_named.second", torch.empty_like, lib=library)
        lab.same("an overload by name", space.low_named.second(meta).shape)
        library.define("low_formats(Tensor x, MemoryFormat[] formats) -> Tensor")
        received: list[Any] = []
        library.impl(
            "low_formats",
            lambda x, formats: (received.append(list(formats)), x.clone())[1],
            _dispatch_key(lab),
        )  # type: ignore[func-returns-value]
        lab.same(
            "with formats", space.low_formats(lab.integers(2), [torch.contiguous_format, torch.channels_last])
        )
        lab.same("formats", received)

        @torch.library.define(library, "low_legacy(Tensor x) -> Tensor")  # type: ignore[untyped-decorator]
        def legacy(x: torch.Tensor) -> torch.Tensor:
            return x * 9

        lab.same("defined with its kernel", space.low_legacy(lab.integers(3)))


@behaviour("custom-operators", sees=("value", "error"))
def schemas_and_tags(lab: Lab) -> None:
    """Tags of an operator are stored once each. Schemas that contradict mutates_args or lack types are
    refused.
    """

    @custom_op(f"{SPACE}::tagged_one", mutates_args=(), tags=torch.Tag.pointwise)
    def one(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @custom_op(
        f"{SPACE}::tagged_two", mutates_args=(), tags=[torch.Tag.pt2_compliant_tag, torch.Tag.pointwise]
    )
    def two(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    for name, op in {"one": one, "two": two}.items():
        tags = op._opoverload.tags
        lab.same(
            f"tags of {name}", [tags.count(torch.Tag.pt2_compliant_tag), tags.count(torch.Tag.pointwise)]
        )
    lab.same("value", one(lab.integers(3)))

    def no_return(x: torch.Tensor, y: int):  # type: ignore[no-untyped-def]
        return x

    lab.raises(
        "no return type",
        lambda: custom_op(f"{SPACE}::no_return", no_return, mutates_args=()),
        ValueError,
        match="return",
    )

    def writes(x: Any) -> Any:
        return None

    lab.raises(
        "a schema that writes what is not named",
        lambda: custom_op(f"{SPACE}::writes", writes, mutates_args=(), schema="(Tensor(a!) x) -> ()"),
        ValueError,
        match="mutates",
    )

    def by_keyword(x: torch.Tensor, *, y: int, z: torch.Tensor) -> torch.Tensor:
        return x

    lab.raises(
        "tensors by keyword",
        lambda: custom_op(f"{SPACE}::by_keyword", by_keyword, mutates_args=()),
        NotImplementedError,
    )

    @custom_op(f"{SPACE}::optional_out", mutates_args={"out"})
    def optional_out(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        if out is None:
            return x.clone()
        out.copy_(x)
        return x.new_empty(0)

    x, out = lab.integers(3), lab.integers(3)
    lab.same("without out", optional_out(x))
    version = out._version
    lab.same("with out", [optional_out(x, out=out).numel(), out, out._version > version])

    @custom_op(f"{SPACE}::single", mutates_args=())
    def single(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x.clone(),)

    result = single(x)
    lab.holds("a tuple of one stays a tuple", isinstance(result, tuple) and len(result) == 1)
