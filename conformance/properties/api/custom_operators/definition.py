"""Behaviours of ``torch.library.custom_op``: user-defined operators, their kernels by device, effects and
default arguments.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.library import custom_op

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

#: The namespace of the custom operators. A definition replaces an earlier definition of the same name.
SPACE = "conformance_suite"

_numbers = itertools.count()


def unique_name(name: str) -> str:
    """Return ``name`` with a number that makes it unique.

    Unique names are needed because torch does not forget the registrations of a Library as soon as the
    Library is deleted.
    """
    return f"{name}_{next(_numbers)}"


@behaviour("custom-operators", level="core", must_detect=("value",))
def kernels_by_device(lab: Lab) -> None:
    """A custom operator runs the kernel that is registered for the device of its tensors, or else its default
    kernel. If ``device_types`` is passed, the default kernel is used only for these device types.
    """
    kind = lab.device.type
    calls: list[str] = []

    @custom_op(f"{SPACE}::shifted", mutates_args=())
    def shifted(x: torch.Tensor, by: float) -> torch.Tensor:
        calls.append("default")
        return torch.from_numpy(x.cpu().numpy() + by).to(x.device)

    x = lab.integers(3)
    lab.same("by the default", shifted(x, 2.0))
    lab.same("a call through torch.ops", getattr(torch.ops, SPACE).shifted(x, 2.0))

    @shifted.register_kernel(kind)
    def device_kernel_of_shifted(x: torch.Tensor, by: float) -> torch.Tensor:
        calls.append("of the device")
        return x + by

    lab.same("by the device's kernel", shifted(x, 3.0))
    with shifted.set_kernel_enabled(kind, enabled=False):
        lab.same("switched off", shifted(x, 4.0))
        with shifted.set_kernel_enabled(kind, enabled=True):
            lab.same("and on", shifted(x, 5.0))
    lab.same("calls", calls)

    @custom_op(f"{SPACE}::limited", mutates_args=(), device_types=kind)
    def doubled_on_one_device(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    lab.same("limited to the device", doubled_on_one_device(x))

    @custom_op(f"{SPACE}::both", mutates_args=(), device_types=tuple({"cpu", kind}))
    def tripled_on_both_devices(x: torch.Tensor) -> torch.Tensor:
        return x.clone() * 3

    lab.same("of several devices", tripled_on_both_devices(x))
    lab.same("on the host", tripled_on_both_devices(x.cpu()), host=True)

    @custom_op(f"{SPACE}::elsewhere", mutates_args=(), device_types="cuda" if kind == "xpu" else "xpu")
    def doubled_on_absent_device(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    lab.raises(
        "no kernel for the device", lambda: doubled_on_absent_device(x), NotImplementedError, RuntimeError
    )
    with lab.parity("The page lists some valid device types, and does not say that other types are refused"):
        lab.raises(
            "an unknown device",
            lambda: shifted.register_kernel("nonsense", lambda x, by: x),
            RuntimeError,
            ValueError,
        )


@behaviour("custom-operators", must_detect=("value",))
def kernels_of_libraries(lab: Lab) -> None:
    """A Library can define operators, and can register kernels by dispatch key or by device. Kernels can be
    overridden on request. When the library is deleted, its operators and kernels disappear.
    """
    kind = lab.device.type
    key = torch._C._dispatch_key_for_device(kind)
    x = lab.integers(3)
    with torch.library._scoped_library(SPACE, "FRAGMENT") as library:
        space = getattr(torch.ops, SPACE)
        doubled = unique_name("doubled")
        library.define(f"{doubled}(Tensor x) -> Tensor")
        library.impl(doubled, lambda x: x.detach().clone() * 2, key)
        lab.same("by key", getattr(space, doubled)(x))
        lab.raises(
            "a second kernel",
            lambda: library.impl(doubled, lambda x: x * 5, key, allow_override=False),
            match="already",
        )
        library.impl(doubled, lambda x: x * 7, key, allow_override=True)
        lab.same("overridden", getattr(space, doubled)(x))
        torch.library.define(f"{SPACE}::tripled", "(Tensor x) -> Tensor", lib=library)
        torch.library.impl(f"{SPACE}::tripled", kind, lambda x: x.clone() * 3, lib=library)
        lab.same("by device", space.tripled(x))
        library.define("everywhere(Tensor x, int[] sizes, ScalarType[] kinds, Layout[] layouts) -> Tensor")
        received: list[Any] = []

        def record_lists_and_scale(x: torch.Tensor, sizes: Any, kinds: Any, layouts: Any) -> torch.Tensor:
            received.append([list(sizes), list(kinds), list(layouts)])
            return x * 4

        library.impl("everywhere", record_lists_and_scale, "CompositeExplicitAutograd")
        lab.same("by a composite", space.everywhere(x, (1, 2), [torch.float16], [torch.strided]))
        lab.same("lists of things", received)
        library.define("several(Tensor[] xs, Tensor? y, Scalar s) -> (Tensor, Tensor[])")
        library.impl("several", lambda xs, y, s: (xs[0] * s, [t + 1 for t in xs]), key)
        lab.same("lists of tensors", space.several([x, x * 2], None, 3))
        with lab.parity("No page says that a schema with an unknown type is refused"):
            lab.raises("an unknown type", lambda: library.define("wrong(Strange x) -> Tensor"), match="type")
        with lab.parity("No page says that a schema that is invalid is refused"):
            lab.raises(
                "a schema that is invalid",
                lambda: torch.library.define(f"{SPACE}::bad", "bad(Tensor x)", lib=library),
                ValueError,
                RuntimeError,
            )
        lab.raises(
            "a name without a namespace",
            lambda: torch.library.define("bare", "(Tensor x) -> Tensor"),
            ValueError,
            match="namespace",
        )
        library.define("tagged(Tensor x) -> Tensor", tags=(torch.Tag.pointwise,))
        lab.holds("tags are kept", torch.Tag.pointwise in space.tagged.default.tags)
        library.define("viewing(Tensor(a) x) -> Tensor(a)")
        library.impl("viewing", lambda x: x.view(-1), key)
        lab.same("a view", space.viewing(x))
        lab.shares("a view and its base", x, space.viewing(x))
        kernel = torch.library.get_kernel(f"{SPACE}::tripled", key)
        lab.same(
            "a kernel by name",
            kernel.call_boxed(torch._C.DispatchKeySet(torch._C._parse_dispatch_key(key)), x),  # type: ignore[arg-type]
        )
        with lab.parity(
            "The page names an error only for an operator that does not exist, not for a missing kernel"
        ):
            lab.raises(
                "a kernel that does not exist",
                lambda: torch.library.get_kernel(f"{SPACE}::tripled", "FPGA"),
                RuntimeError,
                ValueError,
            )
    lab.raises(
        "after the library",
        lambda: getattr(torch.ops, SPACE).tripled(x),
        AttributeError,
        RuntimeError,
        NotImplementedError,
    )


@behaviour(
    "custom-operators",
    level="core",
    must_detect=("error",),
    ground=(
        "notes/autograd.html says that a tensor's version counter increases whenever the tensor is marked "
        "dirty"
    ),
)
def operators_that_change_inputs(lab: Lab) -> None:
    """``mutates_args`` names the arguments that an operator changes. The versions of these arguments
    increase. This also holds for tensors in lists and for optional tensors. Results must not alias inputs.
    """

    @custom_op(f"{SPACE}::doubles_", mutates_args={"x"})
    def double_in_place(x: torch.Tensor) -> None:
        x.mul_(2)

    x = lab.integers(3)
    before = x._version
    lab.same("result", double_in_place(x))
    lab.same("changed", x)
    lab.holds("the version of the changed argument increased", x._version > before)

    @custom_op(f"{SPACE}::touches_", mutates_args={"y", "z", "w"})
    def zero_all_but_first(
        x: torch.Tensor, y: torch.Tensor | None, z: list[torch.Tensor], w: list[torch.Tensor | None]
    ) -> None:
        for tensor in (y, *z, *w):
            if tensor is not None:
                tensor.zero_()

    parts = [lab.integers(2) for _ in range(5)]
    versions = [t._version for t in parts]
    zero_all_but_first(parts[0], parts[1], [parts[2], parts[3]], [None, parts[4]])
    lab.same("all but the first are zero", parts)
    lab.same("which versions increased", [t._version > v for t, v in zip(parts, versions, strict=True)])
    zero_all_but_first(parts[0], None, [], [])

    @custom_op(f"{SPACE}::unknown_", mutates_args="unknown")
    def add_one_with_unknown_writes(x: torch.Tensor) -> None:
        x.add_(1)

    before = x._version
    add_one_with_unknown_writes(x)
    lab.same("changed by an operator with unknown writes", [x, x._version > before])

    @custom_op(f"{SPACE}::returns_view", mutates_args=())
    def returns_view(x: torch.Tensor) -> torch.Tensor:
        return x.view(-1)

    @custom_op(f"{SPACE}::returns_input", mutates_args=())
    def returns_input(x: torch.Tensor) -> torch.Tensor:
        return x

    lab.raises("a result that is a view", lambda: returns_view(x), match="alias")
    lab.raises("a result that is an input", lambda: returns_input(x), match="alias")

    def define_with_unknown_argument() -> None:
        @custom_op(f"{SPACE}::misnamed", mutates_args={"y"})
        def operator_without_effect(x: torch.Tensor) -> None:
            pass

    with lab.parity("The page calls the behaviour undefined if mutates_args is not accurate"):
        lab.raises(
            "a changed argument that does not exist", define_with_unknown_argument, ValueError, match="y"
        )
    leaf = lab.integers(3, requires_grad=True)
    with torch.no_grad():
        double_in_place(leaf)
    lab.same("without gradients", leaf.detach())


@behaviour("custom-operators", must_detect=("value", "error"))
def arguments_of_operators(lab: Lab) -> None:
    """Default values, keyword-only arguments, devices and dtypes are passed to a custom operator. The
    operator's schema is inferred from annotations or passed explicitly.
    """
    received: list[Any] = []

    @custom_op(f"{SPACE}::defaults", mutates_args=())
    def record_arguments(
        x: torch.Tensor,
        a: int | None = None,
        b: float = 3.5,
        c: bool = True,
        d: str = "word",
        e: torch.dtype = torch.float32,
        *,
        f: int = 7,
    ) -> torch.Tensor:
        received.append([a, b, c, d, e, f])
        return x.clone() * f

    x = lab.integers(3)
    lab.same("defaults", record_arguments(x))
    lab.same("given", record_arguments(x, 1, 2.0, False, "other", torch.int64, f=2))
    lab.same("seen", received)

    @custom_op(f"{SPACE}::made", mutates_args=())
    def ones_on_device(size: int, device: torch.device) -> torch.Tensor:
        return torch.ones(size, device=device)

    lab.same("a factory", ones_on_device(3, lab.device))

    @custom_op(f"{SPACE}::scaled", mutates_args=(), schema="(Tensor x, float y) -> (Tensor, Tensor)")
    def product_and_sum(x: Any, y: Any) -> Any:
        return x * y, x + y

    lab.same("an explicit schema", product_and_sum(x, 2.0))
    lab.same("inferred", torch.library.infer_schema(_function_with_annotations, mutates_args=()))
    lab.same(
        "inferred with a name",
        torch.library.infer_schema(_function_with_annotations, op_name="typed", mutates_args={"x"}),
    )

    @custom_op(f"{SPACE}::one", mutates_args=())
    def double_each(xs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [t * 2 for t in xs]

    lab.same("lists", double_each([x, x + 1]))

    @custom_op(f"{SPACE}::picks", mutates_args=())
    def copy_of_input(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @custom_op(f"{SPACE}::picks.second", mutates_args=())
    def product_overload(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y

    packet = getattr(torch.ops, SPACE).picks
    lab.same("overloads", [packet(x), packet(x, x)])

    def define_without_tensor() -> None:
        @custom_op(f"{SPACE}::nothing", mutates_args=(), device_types="cpu")
        def operator_without_arguments() -> torch.Tensor:
            return torch.ones(1)

    lab.raises("no tensor and no device", define_without_tensor, ValueError, match="device")
    lab.raises("no annotations", lambda: torch.library.infer_schema(lambda x: x, mutates_args=()), ValueError)
    with lab.parity("No page says that a variable number of arguments is refused"):
        lab.raises(
            "any number",
            lambda: torch.library.infer_schema(_function_with_varargs, mutates_args=()),
            ValueError,
        )

    @custom_op(f"{SPACE}::replaced", mutates_args=())
    def replaced(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    first = replaced(x)

    @custom_op(f"{SPACE}::replaced", mutates_args=())
    def replaced_again(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    with lab.parity(
        "The page says that an operator may be created only once; no page says that a redefinition works"
    ):
        lab.same("a definition replaces another", [first, replaced_again(x)])


def _function_with_annotations(x: torch.Tensor, y: int, z: float = 1.0) -> torch.Tensor:
    """Return x. This function has annotations from which a schema can be inferred."""
    return x


def _function_with_varargs(*args: torch.Tensor) -> torch.Tensor:
    """Return the first argument. No schema can be inferred for ``*args``."""
    return args[0]
