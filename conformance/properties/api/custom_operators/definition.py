"""torch.library.custom_op: user-defined operators, their kernels by device, effects and default arguments."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.library import custom_op

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab

#: The namespace of these operators. A definition replaces the previous one of the same name.
SPACE = "conformance_suite"

_numbers = itertools.count()


def unique_name(name: str) -> str:
    """Return a unique name, because torch forgets the registrations of a deleted Library only later."""
    return f"{name}_{next(_numbers)}"


@behaviour("custom-operators", level="core", sees=("value",))
def kernels_by_device(lab: Lab) -> None:
    """A custom operator runs the kernel of its tensors' device, or else its default kernel. device_types
    restricts the default kernel to these devices.
    """
    kind = lab.device.type
    calls: list[str] = []

    @custom_op(f"{SPACE}::shifted", mutates_args=())
    def shifted(x: torch.Tensor, by: float) -> torch.Tensor:
        calls.append("default")
        return torch.from_numpy(x.cpu().numpy() + by).to(x.device)

    x = lab.integers(3)
    lab.same("by the default", shifted(x, 2.0))
    lab.same("by its name", getattr(torch.ops, SPACE).shifted(x, 2.0))

    @shifted.register_kernel(kind)
    def _(x: torch.Tensor, by: float) -> torch.Tensor:
        calls.append("of the device")
        return x + by

    lab.same("by the device's kernel", shifted(x, 3.0))
    with shifted.set_kernel_enabled(kind, enabled=False):
        lab.same("switched off", shifted(x, 4.0))
        with shifted.set_kernel_enabled(kind, enabled=True):
            lab.same("and on", shifted(x, 5.0))
    lab.same("calls", calls)

    @custom_op(f"{SPACE}::limited", mutates_args=(), device_types=kind)
    def limited(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    lab.same("limited to the device", limited(x))

    @custom_op(f"{SPACE}::both", mutates_args=(), device_types=tuple({"cpu", kind}))
    def both(x: torch.Tensor) -> torch.Tensor:
        return x.clone() * 3

    lab.same("of several devices", both(x))
    lab.same("on the host", both(x.cpu()), host=True)

    @custom_op(f"{SPACE}::elsewhere", mutates_args=(), device_types="cuda" if kind == "xpu" else "xpu")
    def elsewhere(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    lab.raises("no kernel for the device", lambda: elsewhere(x), NotImplementedError, RuntimeError)
    lab.raises(
        "an unknown device",
        lambda: shifted.register_kernel("nonsense", lambda x, by: x),
        RuntimeError,
        ValueError,
    )


@behaviour("custom-operators", sees=("value",))
def kernels_of_libraries(lab: Lab) -> None:
    """A Library's operators and kernels, registered by dispatch key or by device, can be called, can be
    overridden on request, and end with the library.
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

        def everywhere(x: torch.Tensor, sizes: Any, kinds: Any, layouts: Any) -> torch.Tensor:
            received.append([list(sizes), list(kinds), list(layouts)])
            return x * 4

        library.impl("everywhere", everywhere, "CompositeExplicitAutograd")
        lab.same("by a composite", space.everywhere(x, (1, 2), [torch.float16], [torch.strided]))
        lab.same("lists of things", received)
        library.define("several(Tensor[] xs, Tensor? y, Scalar s) -> (Tensor, Tensor[])")
        library.impl("several", lambda xs, y, s: (xs[0] * s, [t + 1 for t in xs]), key)
        lab.same("lists of tensors", space.several([x, x * 2], None, 3))
        lab.raises("an unknown type", lambda: library.define("wrong(Strange x) -> Tensor"), match="type")
        lab.raises(
            "a schema that is invalid",
            lambda: torch.library.define(f"{SPACE}::bad", "bad(Tensor x)", lib=library),
            ValueError,
            RuntimeError,
        )
        lab.raises(
            "a name without a space",
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


@behaviour("custom-operators", level="core", sees=("error",))
def operators_that_change_inputs(lab: Lab) -> None:
    """mutates_args names the arguments that an operator changes. Their versions increase, also for optional
    tensors and lists. Results must not alias inputs.
    """

    @custom_op(f"{SPACE}::doubles_", mutates_args={"x"})
    def doubles(x: torch.Tensor) -> None:
        x.mul_(2)

    x = lab.integers(3)
    before = x._version
    lab.same("result", doubles(x))
    lab.same("changed", x)
    lab.holds("its version rose", x._version > before)

    @custom_op(f"{SPACE}::touches_", mutates_args={"y", "z", "w"})
    def touches(
        x: torch.Tensor, y: torch.Tensor | None, z: list[torch.Tensor], w: list[torch.Tensor | None]
    ) -> None:
        pass

    parts = [lab.integers(2) for _ in range(5)]
    versions = [t._version for t in parts]
    touches(parts[0], parts[1], [parts[2], parts[3]], [None, parts[4]])
    lab.same("versions", [t._version - v for t, v in zip(parts, versions, strict=True)])
    touches(parts[0], None, [], [])

    @custom_op(f"{SPACE}::unknown_", mutates_args="unknown")
    def unknown(x: torch.Tensor) -> None:
        x.add_(1)

    before = x._version
    unknown(x)
    lab.same("changed by one that says nothing", [x, x._version > before])

    @custom_op(f"{SPACE}::returns_view", mutates_args=())
    def returns_view(x: torch.Tensor) -> torch.Tensor:
        return x.view(-1)

    @custom_op(f"{SPACE}::returns_input", mutates_args=())
    def returns_input(x: torch.Tensor) -> torch.Tensor:
        return x

    lab.raises("a result that is a view", lambda: returns_view(x), match="alias")
    lab.raises("a result that is an input", lambda: returns_input(x), match="alias")

    def misnamed() -> None:
        @custom_op(f"{SPACE}::misnamed", mutates_args={"y"})
        def operator(x: torch.Tensor) -> None:
            pass

    lab.raises("a name that is not an argument", misnamed, ValueError, match="y")
    leaf = lab.integers(3, requires_grad=True)
    with torch.no_grad():
        doubles(leaf)
    lab.same("without gradients", leaf.detach())


@behaviour("custom-operators", sees=("value", "error"))
def arguments_of_operators(lab: Lab) -> None:
    """Default values, keyword-only arguments, devices and dtypes reach a custom operator. Its schema is
    inferred or passed.
    """
    received: list[Any] = []

    @custom_op(f"{SPACE}::defaults", mutates_args=())
    def defaults(
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
    lab.same("defaults", defaults(x))
    lab.same("given", defaults(x, 1, 2.0, False, "other", torch.int64, f=2))
    lab.same("seen", received)

    @custom_op(f"{SPACE}::made", mutates_args=())
    def operator(size: int, device: torch.device) -> torch.Tensor:
        return torch.ones(size, device=device)

    lab.same("a factory", operator(3, lab.device))

    @custom_op(f"{SPACE}::scaled", mutates_args=(), schema="(Tensor x, float y) -> (Tensor, Tensor)")
    def scaled(x: Any, y: Any) -> Any:
        return x * y, x + y

    lab.same("a schema that was given", scaled(x, 2.0))
    lab.same("inferred", torch.library.infer_schema(_typed, mutates_args=()))
    lab.same("inferred with a name", torch.library.infer_schema(_typed, op_name="typed", mutates_args={"x"}))

    @custom_op(f"{SPACE}::one", mutates_args=())
    def one(xs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [t * 2 for t in xs]

    lab.same("lists", one([x, x + 1]))

    @custom_op(f"{SPACE}::picks", mutates_args=())
    def picks(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @custom_op(f"{SPACE}::picks.second", mutates_args=())
    def second(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y

    packet = getattr(torch.ops, SPACE).picks
    lab.same("overloads", [packet(x), packet(x, x)])

    def no_device() -> None:
        @custom_op(f"{SPACE}::nothing", mutates_args=(), device_types="cpu")
        def nothing() -> torch.Tensor:
            return torch.ones(1)

    lab.raises("no tensor and no device", no_device, ValueError, match="device")
    for name, function in {"no annotations": lambda x: x, "any number": _starred}.items():
        lab.raises(name, lambda: torch.library.infer_schema(function, mutates_args=()), ValueError)

    @custom_op(f"{SPACE}::replaced", mutates_args=())
    def replaced(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    first = replaced(x)

    @custom_op(f"{SPACE}::replaced", mutates_args=())
    def replaced_again(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    lab.same("a definition replaces another", [first, replaced_again(x)])


def _typed(x: torch.Tensor, y: int, z: float = 1.0) -> torch.Tensor:
    return x


def _starred(*args: torch.Tensor) -> torch.Tensor:
    return args[0]
