"""Behaviours of operators that are defined by a Library: derivatives, batching rules and kernels registered
by name or overload, overrides and schemas.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.library import custom_op
from torch.utils._python_dispatch import TorchDispatchMode

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api.custom_operators.definition import SPACE, unique_name


def _dispatch_key_of_device(lab: Lab) -> str:
    """Return the name of the dispatch key of the Lab's device."""
    return str(torch._C._dispatch_key_for_device(lab.device.type))


class _PassThroughMode(TorchDispatchMode):
    """A dispatch mode that runs every operator unchanged."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


@behaviour("custom-operators", capabilities=("autograd",), must_detect=("value", "error"))
def derivatives_by_name(lab: Lab) -> None:
    """``register_autograd`` accepts the name or the overload of a Library's operator. The operator may have
    keyword and default arguments. Tensors as keyword arguments, and operators that write, are refused.
    """
    x = lab.integers(3, requires_grad=True)

    def save_first_input(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    for way in ("name", "overload"):
        with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
            library.define("low_square(Tensor x) -> Tensor")
            library.impl("low_square", lambda x: x * x, _dispatch_key_of_device(lab))
            op = getattr(torch.ops, SPACE).low_square
            target = f"{SPACE}::low_square" if way == "name" else op.default
            torch.library.register_autograd(
                target,
                lambda ctx, grad: grad * 2 * ctx.saved_tensors[0],
                setup_context=save_first_input,
                lib=library,
            )
            lab.same(f"gradient by {way}", torch.autograd.grad(op(x).sum(), x)[0])
    with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
        library.define("low_scale(Tensor w, int x = 2, *, int y = 3, int z) -> Tensor")
        library.impl("low_scale", lambda w, x=2, *, y=3, z: w * x * y * z, _dispatch_key_of_device(lab))
        received: list[Any] = []

        def record_and_save_factor(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
            received.append([list(inputs[1:]), dict(keyword_only_inputs)])
            ctx.factor = inputs[1] * keyword_only_inputs["y"] * keyword_only_inputs["z"]

        torch.library.register_autograd(
            f"{SPACE}::low_scale",
            lambda ctx, grad: (grad * ctx.factor, None),
            setup_context=record_and_save_factor,
            lib=library,
        )
        op = getattr(torch.ops, SPACE).low_scale
        lab.expect("gradient with defaults", _gradient_of_operator(op, x, z=5), [30.0] * 3)
        lab.expect("gradient with keywords", torch.autograd.grad(op(x, 4, y=1, z=5).sum(), x)[0], [20.0] * 3)
        lab.same("arguments that setup_context received", received)
        library.define("low_keyword(Tensor x, *, Tensor y) -> Tensor")
        with lab.parity("No page says that register_autograd refuses tensors as keyword arguments"):
            lab.raises(
                "tensors by keyword",
                lambda: torch.library.register_autograd(
                    f"{SPACE}::low_keyword", lambda ctx, g: g, lib=library
                ),
                NotImplementedError,
            )
        library.define("low_writes(Tensor(a!) x) -> ()")
        with lab.parity("No page says that register_autograd refuses operators that write"):
            lab.raises(
                "an operator that writes",
                lambda: torch.library.register_autograd(
                    f"{SPACE}::low_writes", lambda ctx, g: g, lib=library
                ),
            )


def _gradient_of_operator(op: Any, x: torch.Tensor, **options: Any) -> torch.Tensor:
    """Return the gradient of the sum of ``op(x, 2, **options)``."""
    return torch.autograd.grad(op(x, 2, **options).sum(), x)[0]


@behaviour("custom-operators", capabilities=("functorch", "autocast"), must_detect=("value",))
def rules_by_name(lab: Lab) -> None:
    """Kernels, batching rules, autocast and dispatch modes can be registered for a Library's operator by name
    or by overload.
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
                target,
                _PassThroughMode,
                lambda mode, function, types, args, kwargs: args[0] * 100,
                lib=library,
            )
            with _PassThroughMode():
                lab.same(f"under a mode by {way}", op(x, 2.0))
            lab.same(f"without a mode by {way}", op(x, 3.0))
    for way in ("name", "overload"):
        with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
            library.define("low_cast(Tensor x) -> Tensor")
            library.impl("low_cast", lambda x: x * 2, _dispatch_key_of_device(lab))
            op = getattr(torch.ops, SPACE).low_cast
            target = f"{SPACE}::low_cast" if way == "name" else op.default
            torch.library.register_autocast(target, kind, torch.float16, lib=library)
            with torch.autocast(kind, dtype=torch.float16):
                lab.same(f"autocast by {way}", op(x))
            lab.same(f"outside by {way}", op(x))
    with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
        library.define("low_batch(Tensor w, int x = 2, *, int y = 3, float z) -> Tensor")
        library.impl("low_batch", lambda w, x=2, *, y=3, z: w * x * y * z, _dispatch_key_of_device(lab))
        calls: list[Any] = []

        def batching_rule(info: Any, in_dims: Any, w: Any, x: int = 2, *, y: int = 3, z: float) -> Any:
            calls.append([info.batch_size, x, y, z])
            return w * x * y * z, 0

        torch.library.register_vmap(f"{SPACE}::low_batch", batching_rule, lib=library)
        lab.same("batched", torch.vmap(getattr(torch.ops, SPACE).low_batch)(x, z=4.0))
        lab.same("calls", calls)


@behaviour("custom-operators", capabilities=("fake_tensors",), must_detect=("value", "error"))
def what_overrides_what(lab: Lab) -> None:
    """On request, a fake or meta kernel overrides an earlier kernel while the library of the new kernel is
    alive. Fake kernels are refused for an operator with a CompositeImplicitAutograd kernel.
    """
    space = getattr(torch.ops, SPACE)
    meta = torch.empty(3, device="meta")

    def concatenate_with_itself(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x])

    def fake_and_meta_shapes(op: Any) -> list[Any]:
        with FakeTensorMode() as mode:
            fake = op(mode.from_tensor(lab.integers(3))).shape
        return [fake, op(meta).shape]

    with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
        low_fake = unique_name("low_fake")
        library.define(f"{low_fake}(Tensor x) -> Tensor")
        torch.library.register_fake(f"{SPACE}::{low_fake}", lambda x: x * 1, lib=library)
        lab.same("a fake kernel", fake_and_meta_shapes(getattr(space, low_fake)))
        lab.raises(
            "a second fake kernel",
            lambda: torch.library.register_fake(
                f"{SPACE}::{low_fake}", concatenate_with_itself, lib=library, allow_override=False
            ),
            match="already",
        )
        torch.library.register_fake(
            f"{SPACE}::{low_fake}", concatenate_with_itself, lib=library, allow_override=True
        )
        lab.same("overridden", fake_and_meta_shapes(getattr(space, low_fake)))
        with torch.library._scoped_library(SPACE, "FRAGMENT") as inner:
            torch.library.register_fake(
                f"{SPACE}::{low_fake}", lambda x: x * 1, lib=inner, allow_override=True
            )
            lab.same("by an inner library", fake_and_meta_shapes(getattr(space, low_fake)))
        with lab.parity(
            "No page says that the earlier fake kernel returns when the later kernel's library is deleted"
        ):
            lab.same("after it", fake_and_meta_shapes(getattr(space, low_fake)))
        low_meta = unique_name("low_meta")
        library.define(f"{low_meta}(Tensor x) -> Tensor")
        library.impl(low_meta, lambda x: x * 1, "Meta")
        lab.same("a meta kernel", fake_and_meta_shapes(getattr(space, low_meta)))
        lab.raises(
            "a second meta kernel",
            lambda: library.impl(low_meta, concatenate_with_itself, "Meta", allow_override=False),
            match="already",
        )
        lab.raises(
            "a fake kernel for an operator with a meta kernel",
            lambda: torch.library.register_fake(
                f"{SPACE}::{low_meta}", concatenate_with_itself, lib=library, allow_override=False
            ),
            match="already",
        )
        library.impl(low_meta, concatenate_with_itself, "Meta", allow_override=True)
        lab.same("overridden meta kernel", fake_and_meta_shapes(getattr(space, low_meta)))
        library.define("low_explicit(Tensor x) -> Tensor")
        library.impl("low_explicit", lambda x: x * 1, "CompositeExplicitAutograd")
        lab.same("a composite kernel for fake and meta tensors", fake_and_meta_shapes(space.low_explicit))
        torch.library.register_fake(
            f"{SPACE}::low_explicit", concatenate_with_itself, lib=library, allow_override=True
        )
        lab.same("a fake kernel that overrides a composite kernel", fake_and_meta_shapes(space.low_explicit))
        lab.same("the result for a real tensor", space.low_explicit(lab.integers(3)))
        library.define("low_implicit(Tensor x) -> Tensor")
        library.impl("low_implicit", lambda x: x.sin(), "CompositeImplicitAutograd")
        with lab.parity(
            "No page says that a fake kernel is refused for a CompositeImplicitAutograd operator"
        ):
            lab.raises(
                "a fake kernel for an implicit composite",
                lambda: torch.library.register_fake(
                    f"{SPACE}::low_implicit", concatenate_with_itself, lib=library
                ),
                match="CompositeImplicitAutograd",
            )
        library.define("low_named.second(Tensor x) -> Tensor")
        torch.library.register_fake(f"{SPACE}::low_named.second", torch.empty_like, lib=library)
        lab.same("an overload by name", space.low_named.second(meta).shape)
        library.define("low_formats(Tensor x, MemoryFormat[] formats) -> Tensor")
        received: list[Any] = []
        library.impl(
            "low_formats",
            lambda x, formats: (received.append(list(formats)), x.clone())[1],  # type: ignore[func-returns-value]
            _dispatch_key_of_device(lab),
        )
        lab.same(
            "with formats", space.low_formats(lab.integers(2), [torch.contiguous_format, torch.channels_last])
        )
        lab.same("formats", received)

        @torch.library.define(library, "low_legacy(Tensor x) -> Tensor")  # type: ignore[untyped-decorator]
        def nine_times(x: torch.Tensor) -> torch.Tensor:
            return x * 9

        with lab.parity("The page does not describe define as a decorator with a Library"):
            lab.same("defined with its kernel", space.low_legacy(lab.integers(3)))


@behaviour(
    "custom-operators",
    must_detect=("value", "error"),
    basis="parity",
    ground="No page says that a tag is stored once, or which schemas are refused",
)
def schemas_and_tags(lab: Lab) -> None:
    """Each tag of an operator is stored once, also if torch adds the tag itself. Schemas that contradict
    ``mutates_args``, and functions without type annotations, are refused.
    """

    @custom_op(f"{SPACE}::tagged_one", mutates_args=(), tags=torch.Tag.pointwise)
    def copied_with_one_tag(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @custom_op(
        f"{SPACE}::tagged_two", mutates_args=(), tags=[torch.Tag.pt2_compliant_tag, torch.Tag.pointwise]
    )
    def copied_with_two_tags(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    for name, op in {"one": copied_with_one_tag, "two": copied_with_two_tags}.items():
        tags = op._opoverload.tags
        lab.same(
            f"tags of {name}", [tags.count(torch.Tag.pt2_compliant_tag), tags.count(torch.Tag.pointwise)]
        )
    with lab.documented():
        lab.same("value", copied_with_one_tag(lab.integers(3)))

    def without_return_annotation(x: torch.Tensor, y: int):  # type: ignore[no-untyped-def]
        return x

    with lab.documented():
        lab.raises(
            "no return type",
            lambda: custom_op(f"{SPACE}::no_return", without_return_annotation, mutates_args=()),
            ValueError,
            match="return",
        )

    def contradict_schema(x: Any) -> Any:
        return None

    lab.raises(
        "a schema that writes to an argument outside mutates_args",
        lambda: custom_op(
            f"{SPACE}::writes", contradict_schema, mutates_args=(), schema="(Tensor(a!) x) -> ()"
        ),
        ValueError,
        match="mutates",
    )

    def take_tensor_by_keyword(x: torch.Tensor, *, y: int, z: torch.Tensor) -> torch.Tensor:
        return x

    lab.raises(
        "tensors by keyword",
        lambda: custom_op(f"{SPACE}::by_keyword", take_tensor_by_keyword, mutates_args=()),
        NotImplementedError,
    )

    @custom_op(f"{SPACE}::optional_out", mutates_args={"out"})
    def copy_into_optional_out(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        if out is None:
            return x.clone()
        out.copy_(x)
        return x.new_empty(0)

    x, out = lab.integers(3), lab.integers(3)
    with lab.documented():
        lab.same("without out", copy_into_optional_out(x))
        version = out._version
        lab.same("with out", [copy_into_optional_out(x, out=out).numel(), out, out._version > version])

    @custom_op(f"{SPACE}::single", mutates_args=())
    def tuple_of_one_copy(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x.clone(),)

    result = tuple_of_one_copy(x)
    lab.holds("a tuple with one element remains a tuple", isinstance(result, tuple) and len(result) == 1)
