"""Behaviours of functions that make tensors from other tensors: ``cat``, ``stack`` and functions built on
them, ``meshgrid``, ``block_diag``, ``roll`` and ``repeat_interleave``.
"""

from __future__ import annotations

import contextlib

import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab


@behaviour(
    "creation",
    dtypes=ALL,
    level="core",
    must_detect=("value", "dtype", "shape"),
    page="generated/torch.cat.html",
)
def joined_by_cat(lab: Lab) -> None:
    """``cat`` concatenates tensors along any dimension. Slices of the result equal the inputs."""
    parts = [lab.integers(2, size, 3) for size in (1, 4, 2)]
    joined = torch.cat(parts, 1)
    lab.same("along 1", joined)
    lab.same("along -2", torch.cat(parts, dim=-2))
    lab.same("concat and concatenate", [torch.concat(parts, 1), torch.concatenate(parts, axis=1)])  # type: ignore[call-arg]
    start = 0
    for part in parts:
        lab.holds(
            "a slice of the result equals the input", torch.equal(joined.narrow(1, start, part.size(1)), part)
        )
        start += part.size(1)
    for dim in (0, 1, 2, -1, -3):
        lab.same(f"twice along {dim}", torch.cat((parts[0], parts[0]), dim))
    lab.same("one tensor", torch.cat([parts[0]]))
    many = [lab.integers(3, 2) for _ in range(40)]
    lab.same("many", torch.cat(many))
    lab.same("many along 1", torch.cat(many, 1))
    strided = lab.integers(4, 6)
    lab.same("strided parts", torch.cat((strided[:, ::2], strided.t()[:4, :3], strided[:, 1:2].expand(4, 3))))
    lab.same("with inputs without elements", torch.cat((parts[0], parts[0][:, :0], parts[1]), 1))
    legacy = torch.empty(0, dtype=lab.dtype, device=lab.device)
    lab.same("with empty one-dimensional tensors", torch.cat((legacy, parts[0], legacy), 1))
    lab.same("only empty one-dimensional tensors", torch.cat((legacy, legacy)))
    lab.same("four dimensions of nothing", torch.cat((lab.integers(4, 0, 3, 2), lab.integers(4, 2, 3, 2)), 1))
    with lab.parity("The page does not say that cat promotes dtypes"):
        mixed = torch.cat((lab.integers(2), torch.ones(2, dtype=torch.float64, device=lab.device)))
        lab.same("mixed dtypes", mixed)


@behaviour("creation", level="core", must_detect=("error", "message"), page="generated/torch.cat.html")
def cat_refuses(lab: Lab) -> None:
    """``cat`` refuses an empty list, tensors without dimensions, tensors of different sizes, a dimension that
    does not exist, and tensors on different devices.
    """
    a, b = lab.integers(2, 3), lab.integers(2, 4)
    lab.raises("sizes", lambda: torch.cat((a, b)), match="Sizes of tensors must match")
    lab.raises("dimensions", lambda: torch.cat((a, lab.integers(2))), match="(?i)dimension")
    with lab.parity("No page says that an empty list is refused"):
        lab.raises("no tensors", lambda: torch.cat([]), RuntimeError, ValueError, match="(?i)non-empty")
    with lab.parity("No page says that tensors without dimensions are refused"):
        lab.raises("scalars", lambda: torch.cat((lab.integers(), lab.integers())), match="zero-dimensional")
    with lab.parity("The page does not say that a dimension out of range is an error"):
        lab.raises(
            "a dimension that is out of range",
            lambda: torch.cat((a, a), 2),
            IndexError,
            match="(?i)dimension out of range",
        )
    with lab.parity("No page says that a number in place of a tensor is refused"):
        lab.raises("numbers", lambda: torch.cat((a, 1)), TypeError)  # type: ignore[arg-type]
    lab.raises("stack of sizes", lambda: torch.stack((a, b)), match="equal size")
    with lab.parity("No page says that an empty list is refused"):
        lab.raises(
            "stack of nothing", lambda: torch.stack([]), RuntimeError, ValueError, match="(?i)non-empty"
        )
    lab.raises(
        "stack along a dimension out of range",
        lambda: torch.stack((a, a), 3),
        IndexError,
        match="(?i)dimension out of range",
    )
    integers = torch.empty(0, dtype=torch.int32, device=lab.device)
    lab.raises(
        "into integers",
        lambda: torch.cat((a, a), out=integers),
        RuntimeError,
        TypeError,
        match="can't be cast",
    )
    whole = lab.integers(4, 3)
    with lab.parity("No page says that an output that overlaps an input is refused"):
        lab.raises(
            "into a part",
            lambda: torch.cat((whole[:2], whole[2:]), out=whole),
            match="(?i)unsupported operation|overlap",
        )
    with lab.parity("The page of expand warns of wrong results, and promises no error"):
        lab.raises(
            "into overlapping memory",
            lambda: torch.cat((a, a), out=torch.zeros(1, device=lab.device).expand(4, 3)),
            match="(?i)unsupported operation|overlap|single memory location",
        )
    elsewhere = torch.ones(2, 3, device="meta" if lab.device.type == "cpu" else "cpu")
    lab.raises("another device", lambda: torch.cat((a, elsewhere)))


@behaviour(
    "creation",
    dtypes=("float32", "int64"),
    must_detect=("value", "shape"),
    capabilities=("storage",),
    page="notes/out.html",
)
def cat_into_out(lab: Lab) -> None:
    """``cat`` and ``stack`` write into the tensor that is passed as ``out=``, whatever its strides. If this
    tensor has the size of the result, its memory is used.
    """
    a, b = lab.integers(2, 3), lab.integers(2, 3)
    for dim in (0, 1):
        shape = (4, 3) if dim == 0 else (2, 6)
        fitting = torch.zeros(shape, dtype=lab.dtype, device=lab.device)
        address = fitting.data_ptr()
        lab.holds("cat returns out", torch.cat((a, b), dim, out=fitting) is fitting)
        lab.same(f"into an out of the result's size along {dim}", fitting)
        with lab.parity("No page says that the address stays the same"):
            lab.holds("out keeps its memory", fitting.data_ptr() == address)
        wide = torch.zeros(shape[0], 2 * shape[1], dtype=lab.dtype, device=lab.device)
        torch.cat((a, b), dim, out=wide[:, ::2])
        lab.same(f"into a strided out along {dim}", wide)
        turned = torch.zeros(shape[::-1], dtype=lab.dtype, device=lab.device)
        torch.cat((a, b), dim, out=turned.t())
        lab.same(f"into a transposed out along {dim}", turned)
        base = torch.zeros(20, dtype=lab.dtype, device=lab.device)
        torch.cat((a, b), dim, out=base[3:15].view(shape))
        lab.same(f"into a part of a larger tensor along {dim}", base)
        lab.same(f"into an empty out along {dim}", torch.cat((a, b), dim, out=torch.empty_like(a[:0])))
    double = torch.empty(0, dtype=torch.float64, device=lab.device)
    with lab.parity("No page says whether cat converts to the dtype of out"):
        lab.same("into a wider dtype", torch.cat((a, b), out=double))
    for dim in (0, 1, 2, -1):
        out = torch.empty(0, dtype=lab.dtype, device=lab.device)
        lab.same(f"stack into out along {dim}", torch.stack((a, b), dim, out=out))
    lab.same(
        "stack into an out of the result's size",
        torch.stack((a, b), out=torch.zeros(2, 2, 3, dtype=lab.dtype, device=lab.device)),
    )


@behaviour(
    "creation", capabilities=("channels_last", "strides"), must_detect=("value",), page="notes/out.html"
)
def cat_and_memory_format(lab: Lab) -> None:
    """``cat`` of channels-last tensors gives the values of ``cat`` of contiguous tensors. The tensor that is
    passed as ``out=`` may be contiguous or channels-last.
    """
    a = lab.integers(2, 3, 2, 2)
    b = lab.integers(2, 3, 2, 2)
    expected = torch.cat((a, b), 1)
    last = [part.contiguous(memory_format=torch.channels_last) for part in (a, b)]
    with lab.parity("No page gives the strides of the result"):
        lab.same("cat of contiguous tensors", expected, strides=True)
    lab.same("cat of channels-last tensors", torch.cat(last, 1))
    lab.same("cat of a contiguous and a channels-last tensor", torch.cat((a, last[1]), 1))
    lab.same("along 0", torch.cat(last, 0))
    for name, memory_format in (
        ("contiguous", torch.contiguous_format),
        ("channels last", torch.channels_last),
    ):
        out = torch.empty((2, 6, 2, 2), device=lab.device, memory_format=memory_format)
        stride = lab.strides(out)
        torch.cat(last, 1, out=out)
        lab.same(f"into {name}", out)
        lab.holds(f"out stays {name}", lab.strides(out) == stride)
    with lab.consistent("channels-last and contiguous inputs must give the same values"):
        lab.holds("both formats give the same values", torch.equal(torch.cat(last, 1), expected))


@behaviour(
    "creation",
    dtypes=ALL,
    must_detect=("value", "shape"),
    page="generated/torch.stack.html",
    ground="The pages of the other functions give formulas; hstack without dimensions is not covered",
)
def stacks(lab: Lab) -> None:
    """``stack`` joins tensors along a new dimension. ``hstack``, ``vstack``, ``dstack`` and ``column_stack``
    give the results of the NumPy functions of these names.
    """
    a, b = lab.integers(2, 3), lab.integers(2, 3)
    for dim in (0, 1, 2, -1, -2, -3):
        joined = torch.stack((a, b), dim)
        lab.same(f"stack along {dim}", joined)
        lab.holds("selecting gives a part", torch.equal(joined.select(dim, 1), b))
    lab.same("stack of one tensor", torch.stack([a]))
    lab.same("stack of scalars", torch.stack((lab.integers(), lab.integers())))
    for shape in ((3,), (3, 2), (3, 2, 2), ()):
        parts = [lab.integers(*shape) for _ in range(3)]
        for call in (torch.column_stack, torch.hstack, torch.vstack, torch.row_stack, torch.dstack):
            with (
                contextlib.nullcontext()
                if shape or call is torch.column_stack
                else lab.parity("The page of this function does not cover tensors without dimensions")
            ):
                lab.same(f"{call.__name__} of {shape}", call(parts))
    lab.expect(
        "a column beside two",
        torch.column_stack((lab.put([1, 2]), lab.put([[3, 4], [5, 6]]))),
        [[1, 3, 4], [2, 5, 6]],
    )
    lab.expect("deep", torch.dstack((lab.put([1, 2]), lab.put([3, 4]))), [[[1, 3], [2, 4]]])
    lab.expect("tall", torch.vstack((lab.put([1, 2]), lab.put([[3, 4]]))), [[1, 2], [3, 4]])
    lab.expect("wide", torch.hstack((lab.put([1, 2]), lab.put([3]))), [1, 2, 3])


@behaviour(
    "creation",
    must_detect=("alias", "error"),
    dtypes=("float32", "int64", "bool"),
    page="generated/torch.hsplit.html",
)
def stack_splits(lab: Lab) -> None:
    """``hsplit``, ``vsplit`` and ``dsplit`` split a tensor into equal parts or at indices, and return views.
    Tensors with too few dimensions are refused.
    """
    base = lab.integers(4, 4, 4)
    for call in (torch.hsplit, torch.vsplit, torch.dsplit):
        name = call.__name__
        halves = call(base, 2)
        lab.same(f"{name} in two", list(halves))
        lab.shares(f"a tensor and the result of {name}", base, halves[1])
        lab.same(f"{name} at places", list(call(base, (1, 3))))
        lab.same(f"{name} beyond the end", [part.shape for part in call(base, (2, 6))])
        halves[1].zero_()
        lab.same(f"after a write through {name}", base)
        lab.raises(
            f"{name} in three", lambda: call(base, 3), match="not divisible|evenly", type_is_documented=True
        )
        lab.raises(f"{name} of a scalar", lambda: call(lab.integers(), 1), match="dimension")
    lab.same("hsplit of a vector", list(torch.hsplit(lab.integers(6), 3)))
    lab.raises("vsplit of a vector", lambda: torch.vsplit(lab.integers(6), 3), match="dimension")
    lab.raises("dsplit of a matrix", lambda: torch.dsplit(lab.integers(6, 2), 2), match="dimension")
    lab.raises("in no parts", lambda: torch.hsplit(base, 0), type_is_documented=True)


@behaviour(
    "creation",
    must_detect=("value", "error", "warning"),
    dtypes=("float32", "int64", "complex64"),
    page="generated/torch.meshgrid.html",
)
def meshgrids(lab: Lab) -> None:
    """``meshgrid`` expands vectors and scalars along all axes, in order "ij" or "xy". ``meshgrid``
    warns if the argument ``indexing`` is not passed.
    """
    a, b, c = (
        lab.put([1, 2], dtype=lab.dtype),
        lab.put([3, 4, 5], dtype=lab.dtype),
        lab.put(6, dtype=lab.dtype),
    )
    first, second, third = torch.meshgrid(a, b, c, indexing="ij")
    lab.expect("the first of ij", first, torch.tensor([[[1]] * 3, [[2]] * 3]))
    lab.expect("the second of ij", second, torch.tensor([[[3], [4], [5]]] * 2))
    lab.expect("the third of ij", third, torch.full((2, 3, 1), 6))
    swapped = torch.meshgrid(a, b, indexing="xy")
    lab.expect("the first of xy", swapped[0], [[1, 2], [1, 2], [1, 2]])
    lab.expect("the second of xy", swapped[1], [[3, 3], [4, 4], [5, 5]])
    lab.same("of a list", list(torch.meshgrid([a, b], indexing="ij")))
    lab.same("of one", list(torch.meshgrid(a, indexing="xy")))
    lab.same("of scalars", list(torch.meshgrid(c, c, indexing="xy")))
    lab.same("meshgrid with one vector without elements", list(torch.meshgrid(a, b[:0], indexing="ij")))
    default = lab.warns("without indexing", lambda: torch.meshgrid(a, b), match="indexing argument")
    lab.same("meshgrid without indexing uses ij", list(default))
    lab.silent("with indexing", lambda: torch.meshgrid(a, b, indexing="ij"))
    with lab.parity("No page says that no tensors are an error"):
        lab.raises(
            "of no tensors", lambda: torch.meshgrid(indexing="ij"), RuntimeError, TypeError, ValueError
        )
    lab.raises(
        "an unknown indexing",
        lambda: torch.meshgrid(a, b, indexing="zz"),
        match='indexing must be one of "xy" or "ij"',
    )
    lab.raises(
        "of a matrix",
        lambda: torch.meshgrid(a, lab.integers(2, 2), indexing="ij"),
        match="scalar or 1D|0D or 1D",
    )
    odd = lab.put([1.0], dtype=torch.float64)
    with lab.parity("No page says that different dtypes are refused"):
        lab.raises("of two dtypes", lambda: torch.meshgrid(a, odd, indexing="ij"), match="same dtype")
    elsewhere = torch.ones(2, dtype=lab.dtype, device="meta")
    with lab.parity("No page says that meshgrid refuses different devices"):
        lab.raises("of two devices", lambda: torch.meshgrid(a, elsewhere, indexing="ij"), match="same device")


@behaviour(
    "creation",
    must_detect=("value", "error"),
    dtypes=("float32", "int64", "complex64", "bool"),
    page="generated/torch.block_diag.html",
)
def block_diagonals(lab: Lab) -> None:
    """``block_diag`` places matrices, rows and scalars on the diagonal of a zero matrix. ``diagflat`` and
    ``diag_embed`` place vectors on the diagonal.
    """
    a = lab.put([[1, 0], [1, 1]], dtype=lab.dtype)
    row = lab.put([1, 1, 1], dtype=lab.dtype)
    number = lab.put(1, dtype=lab.dtype)
    expected = torch.zeros(4, 6)
    expected[0, 0] = expected[1, 0] = expected[1, 1] = expected[3, 5] = 1
    expected[2, 2:5] = 1
    lab.expect("blocks", torch.block_diag(a, row, number), expected)
    lab.same("one block", torch.block_diag(a))
    lab.same("no columns", torch.block_diag(a, a[:, :0], number))
    with lab.parity("The page requires one or more tensors"):
        lab.same("no blocks", torch.block_diag().shape)
    with lab.parity("No page says that block_diag promotes dtypes"):
        lab.same("mixed dtypes", torch.block_diag(a, lab.put([[2.5]], dtype=torch.float64)))
    lab.raises(
        "three dimensions", lambda: torch.block_diag(a, lab.integers(1, 1, 1)), match="2 or fewer dimensions"
    )
    for offset in (-2, -1, 0, 1, 3):
        lab.same(f"diagflat at {offset}", torch.diagflat(a, offset))
        lab.same(f"diag_embed at {offset}", torch.diag_embed(a, offset))
        lab.same(f"diag at {offset}", torch.diag(row, offset))
        embedded = torch.diag_embed(row, offset)
        lab.holds("the diagonal of diag_embed is the vector", torch.equal(embedded.diagonal(offset), row))
    with lab.parity("The page does not cover tensors without dimensions"):
        lab.same("diagflat of a scalar", torch.diagflat(number))
    lab.same("diag_embed with dimensions 0 and 2", torch.diag_embed(a, 0, 0, 2))
    with lab.parity("No page says that equal dimensions are refused"):
        lab.raises(
            "diag_embed twice in one dimension", lambda: torch.diag_embed(a, 0, 1, 1), match="identical"
        )
    with lab.parity("No page says that a dimension out of range is an error"):
        lab.raises(
            "diag_embed with a dimension out of range", lambda: torch.diag_embed(a, 0, 5, 1), IndexError
        )


@behaviour(
    "creation",
    must_detect=("value", "error"),
    dtypes=("float32", "int64"),
    page="generated/torch.cartesian_prod.html",
)
def products_and_choices(lab: Lab) -> None:
    """``cartesian_prod`` and ``combinations`` list the same tuples as ``product`` and ``combinations`` of
    Python's module ``itertools``. ``vander`` returns the powers of each element of a vector in order.
    """
    a, b = lab.put([1, 2, 3], dtype=lab.dtype), lab.put([4, 5], dtype=lab.dtype)
    lab.expect("a product", torch.cartesian_prod(a, b), [[1, 4], [1, 5], [2, 4], [2, 5], [3, 4], [3, 5]])
    with lab.parity("by the page, one tensor gives rows of one element, not a vector"):
        lab.expect("of one", torch.cartesian_prod(a), [1, 2, 3])
    lab.same("of three", torch.cartesian_prod(a, b, a[:1]))
    with lab.parity("by the page, no rows give a tensor of size zero; its shape is not stated"):
        lab.same("with nothing", torch.cartesian_prod(a, b[:0]))
    lab.raises("of a matrix", lambda: torch.cartesian_prod(a, lab.integers(2, 2)))
    lab.expect("pairs", torch.combinations(a), [[1, 2], [1, 3], [2, 3]])
    lab.expect(
        "pairs with themselves", torch.combinations(b, with_replacement=True), [[4, 4], [4, 5], [5, 5]]
    )
    lab.same("threes", torch.combinations(torch.arange(5, device=lab.device), 3))
    lab.same("ones", torch.combinations(a, 1))
    with lab.parity("by itertools there is one empty combination; the page states no shape"):
        lab.same("none", torch.combinations(a, 0))
    with lab.parity("No page gives the shape of an empty result"):
        lab.same("combinations of more elements than the input has", torch.combinations(b, 3))
    lab.raises("of a matrix", lambda: torch.combinations(lab.integers(2, 2)), match="1D|1-D|vector")
    lab.raises("less than none", lambda: torch.combinations(a, -1), match="non-negative")
    lab.expect("powers", torch.vander(a), [[1, 1, 1], [4, 2, 1], [9, 3, 1]])
    lab.expect("rising powers", torch.vander(a, increasing=True), [[1, 1, 1], [1, 2, 4], [1, 3, 9]])
    lab.expect("more powers", torch.vander(b, 4), [[64, 16, 4, 1], [125, 25, 5, 1]])
    lab.same("no powers", torch.vander(a, 0))
    with lab.parity("No page gives the dtype for bools"):
        lab.same("of bools", torch.vander(torch.tensor([True, False], device=lab.device), 3))
    with lab.parity("No page says that a negative number of powers is refused"):
        lab.raises("a negative number of powers", lambda: torch.vander(a, -1), match="non-negative")
    lab.raises("powers of a matrix", lambda: torch.vander(lab.integers(2, 2)), match="one-dimensional")


@behaviour("creation", must_detect=("value", "error"), dtypes=ALL, page="generated/torch.roll.html")
def rolled_and_repeated(lab: Lab) -> None:
    """``roll`` rotates elements along dimensions or in the flattened tensor. ``repeat_interleave`` repeats
    each element, with one count for all elements or one count per element.
    """
    a = lab.integers(3, 4)
    lab.expect("three places on", torch.roll(torch.arange(5, device=lab.device), 3), [2, 3, 4, 0, 1])
    for shifts, dims in ((1, 0), (-1, 1), (7, 1), ((1, 2), (0, 1)), ((1, 1), (0, 0)), (0, 0)):
        lab.same(f"roll by {shifts} along {dims}", torch.roll(a, shifts, dims))
    lab.same("flat", torch.roll(a, 5))
    lab.same("of a transposed tensor", torch.roll(a.t(), 1, 0))
    lab.same("of nothing", torch.roll(a[:0], 1, 0))
    lab.raises(
        "shifts without dimensions",
        lambda: torch.roll(a, (1, 2), 0),
        match="(?i)shifts and dimensions must align",
    )
    with lab.parity("No page says that an empty list of shifts is refused"):
        lab.raises("no shifts", lambda: torch.roll(a, ()), match="(?i)shifts")
    with lab.parity("No page says that a dimension out of range is an error"):
        lab.raises("roll along a dimension out of range", lambda: torch.roll(a, 1, 2), IndexError)
    lab.same("each twice", torch.repeat_interleave(a, 2))
    lab.same("each twice along 1", torch.repeat_interleave(a, 2, 1))
    counts = lab.put([1, 0, 3])
    lab.same("a separate count for each element", torch.repeat_interleave(a, counts, 0))
    lab.same("with the size known", torch.repeat_interleave(a, counts, 0, output_size=4))
    lab.expect("of counts alone", torch.repeat_interleave(counts), [0, 2, 2, 2])
    lab.same("never", torch.repeat_interleave(a, 0, 0))
    lab.same("of a scalar", torch.repeat_interleave(lab.integers(), 3))
    with lab.parity("No page says that negative counts are refused"):
        lab.raises("a negative count", lambda: torch.repeat_interleave(a, -1, 0))
    lab.raises(
        "too few counts",
        lambda: torch.repeat_interleave(a, lab.put([1, 2]), 0),
        match="(?i)same size|must have",
    )
    with lab.parity("No page says that floating counts are refused"):
        lab.raises("counts that are floats", lambda: torch.repeat_interleave(a, lab.put([1.0, 2.0, 1.0]), 0))


@behaviour(
    "creation",
    must_detect=("error",),
    page="generated/torch.Tensor.expand.html",
    basis="parity",
    ground="The page of expand warns of wrong results, and promises no error",
)
def creation_into_overlap(lab: Lab) -> None:
    """Factories with ``out=`` and random fill methods refuse to write into a tensor whose elements share
    memory.
    """

    def expanded_zeros() -> torch.Tensor:
        return torch.zeros(1, device=lab.device).expand(3)

    calls = {
        "linspace": lambda: torch.linspace(1, 10, 3, out=expanded_zeros()),
        "logspace": lambda: torch.logspace(1, 10, 3, out=expanded_zeros()),
        "bernoulli_": lambda: expanded_zeros().bernoulli_(),
        "cauchy_": lambda: expanded_zeros().cauchy_(),
        "log_normal_": lambda: expanded_zeros().log_normal_(),
        "exponential_": lambda: expanded_zeros().exponential_(),
        "normal_": lambda: expanded_zeros().normal_(),
        "uniform_": lambda: expanded_zeros().uniform_(),
        "random_": lambda: expanded_zeros().random_(),
        "geometric_": lambda: expanded_zeros().geometric_(0.5),
    }
    for name, call in calls.items():
        lab.raises(name, call, match="unsupported operation|single memory location|overlap")
