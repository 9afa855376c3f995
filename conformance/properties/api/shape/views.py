"""Check reshaping: ``view``, ``reshape``, ``flatten``, ``resize_``, and functions that split and transpose
tensors.
"""

from __future__ import annotations

import contextlib

import numpy
import torch

from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._numpy_values import to_widest_numpy_array


@behaviour(
    "shape",
    dtypes=ALL,
    level="bringup",
    must_detect=("error", "shape"),
    capabilities=("strides",),
    page="generated/torch.Tensor.view.html",
)
def view_keeps_elements(lab: Lab) -> None:
    """``view`` returns the same elements in the same order with another shape. One size may be -1. A shape
    that the strides cannot express raises an error.
    """
    base = lab.integers(3, 5, low=0, high=6)
    for shape in ((15,), (5, 3), (1, 15), (3, 1, 5), (-1,), (-1, 5), (5, -1), (1, 1, -1)):
        lab.expect(f"view{shape}", base.view(shape), to_widest_numpy_array(base).reshape(shape))
        lab.same(f"strides of view{shape}", lab.strides(base.view(*shape)))
    lab.raises("15 elements as 14", lambda: base.view(14), match="(?i)invalid")
    lab.raises("two -1", lambda: base.view(-1, -1), match="(?i)one dimension")
    lab.raises("view with -1 and a size that does not divide", lambda: base.view(7, -1), match="(?i)invalid")
    with lab.parity("No page says that -1 beside a size of 0 is refused"):
        lab.raises("-1 beside a 0", lambda: base[:0].view(-1, 0), match="(?i)ambiguous")
    lab.raises("a transposed matrix", lambda: base.t().view(15), match="(?i)reshape")
    gapped = lab.integers(4, 3, 6)[:, :, ::2]
    lab.same("splitting a dimension of a strided tensor", gapped.view(2, 2, 3, 3), strides=True)
    lab.same("merging dimensions of a strided tensor", gapped.view(12, 3), strides=True)
    lab.raises(
        "merging dimensions whose strides do not allow a view",
        lambda: lab.integers(4, 3, 6)[:, :2].view(8, 6),
    )
    lab.same("no elements", [base[:0].view(shape) for shape in ((0,), (5, 0), (2, 0, 3))], strides=True)
    lab.same("no dimensions", [lab.integers(1).view(()), lab.integers(1)[0].view(1, 1)], strides=True)


@behaviour(
    "shape",
    dtypes=("float32", "int64", "bool"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.reshape.html",
)
def reshape_and_flatten(lab: Lab) -> None:
    """``reshape``, ``flatten``, ``unflatten`` and ``ravel`` return the elements in order for any strides.
    Sizes that do not match and dimensions that do not exist raise an error.
    """
    base = lab.integers(2, 3, 4)
    turned = base.permute(2, 0, 1)
    for shape in ((24,), (4, 6), (-1, 3), (2, 2, 6), (1, -1)):
        lab.expect(f"reshape{shape}", torch.reshape(base, shape), to_widest_numpy_array(base).reshape(shape))
        lab.expect(
            f"turned reshape{shape}",
            turned.reshape(shape),
            to_widest_numpy_array(base).transpose(2, 0, 1).reshape(shape),
        )
    for bounds in ((0, -1), (0, 1), (1, 2), (-2, -1), (1, 1)):
        lab.same(f"flatten{bounds}", [x.flatten(*bounds) for x in (base, turned)])
    lab.same("flatten of no dimensions", lab.integers(1)[0].flatten())
    lab.same("unflatten", [base.unflatten(2, (2, -1)), base.unflatten(-2, (3, 1))])
    lab.expect("ravel", turned.ravel(), to_widest_numpy_array(base).transpose(2, 0, 1).ravel())
    lab.same("ravel of no dimensions", torch.ravel(lab.integers(1)[0]))
    lab.same("reshape_as", base.reshape_as(lab.integers(6, 4)))
    lab.same("nothing", [base[:0].reshape(shape) for shape in ((0, 7), (3, 0), (-1, 7))])
    lab.raises("reshape to another number", lambda: base.reshape(5, 5), match="(?i)invalid")
    lab.raises(
        "reshape of an empty tensor to a nonempty shape", lambda: base[:0].reshape(2), match="(?i)invalid"
    )
    with lab.parity("No page says that -1 beside a size of 0 is refused"):
        lab.raises("-1 beside a 0", lambda: base[:0].reshape(-1, 0), match="(?i)ambiguous")
    with lab.parity("No page says that a start_dim after end_dim is refused"):
        lab.raises("flatten with start_dim after end_dim", lambda: base.flatten(2, 0), match="(?i)start_dim")
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises("flatten a dimension that does not exist", lambda: base.flatten(0, 3), IndexError)
    lab.raises("unflatten to another number", lambda: base.unflatten(1, (2, 2)))


@behaviour(
    "shape",
    dtypes=("float32", "int64"),
    level="core",
    must_detect=("shape", "error"),
    page="generated/torch.Tensor.expand.html",
)
def expansion(lab: Lab) -> None:
    """``expand`` and ``broadcast_to`` repeat dimensions of size 1 and add leading dimensions. A dimension of
    another size cannot be expanded, and a new leading dimension cannot be -1.
    """
    column = lab.integers(3, 1)
    row = lab.integers(4)
    lab.expect("column", column.expand(3, 4), numpy.broadcast_to(to_widest_numpy_array(column), (3, 4)))
    lab.expect("row", row.expand(2, 3, 4), numpy.broadcast_to(to_widest_numpy_array(row), (2, 3, 4)))
    lab.same("-1", [column.expand(-1, 2), row.expand(5, -1), column.expand(2, -1, -1)], strides=True)
    lab.same("no dimensions", lab.integers(1)[0].expand(2, 2))
    lab.same("nothing", [column[:0].expand(0, 4), lab.integers(1).expand(0), column.expand(0, 3, 1)])
    lab.same("arguments as a list", torch.broadcast_to(row, [2, 4]))
    lab.raises("expanding a size of 4 to 5", lambda: row.expand(5), match="(?i)size")
    with lab.parity("No page says that a shape of fewer dimensions is refused"):
        lab.raises("fewer dimensions", lambda: column.expand(3), match="(?i)dimensions")
    lab.raises("-1 in front", lambda: row.expand(-1, 4), match="(?i)-1|size")
    columns, rows = torch.broadcast_tensors(column, row)
    lab.same("broadcast_tensors", [columns, rows], strides=True)
    lab.same("three", list(torch.broadcast_tensors(column, row, lab.integers(2, 1, 1))))
    lab.raises(
        "broadcast_tensors of 3 and 4",
        lambda: torch.broadcast_tensors(lab.integers(3), row),
        match="(?i)size",
        type_is_documented=True,
    )
    lab.raises("broadcast_to 3", lambda: torch.broadcast_to(row, (3,)), match="(?i)size")


@behaviour(
    "shape", dtypes=ALL, level="core", must_detect=("value", "error"), page="generated/torch.split.html"
)
def splitting(lab: Lab) -> None:
    """``split``, ``chunk``, ``narrow``, ``unbind`` and ``tensor_split`` return the expected parts. The last
    part of ``split`` and ``chunk`` is smaller if the size of the dimension is not divisible.
    """
    base = lab.integers(7, 3, low=0, high=6)
    lab.same("split", list(base.split(3)))
    lab.same("split by sizes", list(torch.split(base, [1, 4, 2])))
    lab.same("split of dimension 1", list(base.split(2, 1)))
    lab.expect(
        "lengths of chunks",
        [[len(c) for c in base.chunk(n)] for n in (1, 2, 3, 5, 9)],
        [[7], [4, 3], [3, 3, 1], [2, 2, 2, 1], [1] * 7],
    )
    lab.same("chunks", list(base.chunk(3, 0)))
    with lab.parity("No page says how many chunks a dimension without elements has"):
        lab.same("chunks of nothing", list(base[:0].chunk(2)))
    lab.same("narrow", [base.narrow(0, 2, 3), base.narrow(1, -2, 2), base.narrow(0, 7, 0)])
    lab.same("narrow from a tensor", base.narrow(0, lab.put(2), 3))
    lab.same("unbind", [list(base.unbind()), list(torch.unbind(base, -1))])
    for sections in (1, 2, 3, 7, 9):
        expected = [part.tolist() for part in numpy.array_split(numpy.arange(7), sections)]
        result = lab.put(torch.arange(7)).tensor_split(sections)
        lab.expect(f"tensor_split into {sections}", [part.tolist() for part in result], expected)
    for split_points in ((2,), (1, 4), (0, 3, 3), (5, 2), (2, 20), (-3,)):
        expected = [part.tolist() for part in numpy.array_split(numpy.arange(7), split_points)]
        result = lab.put(torch.arange(7)).tensor_split(split_points)
        lab.expect(f"tensor_split at {split_points}", [part.tolist() for part in result], expected)
    host_split_points = torch.tensor([2, 5])
    lab.same("tensor_split at indices in a CPU tensor", list(base.tensor_split(host_split_points)))
    lab.same(
        "tensor_split with the number of sections in a CPU tensor",
        list(torch.tensor_split(base, torch.tensor(3), 0)),
    )
    with lab.parity("No page says that a split size of 0 is refused"):
        lab.raises("split into 0", lambda: base.split(0), match="(?i)split")
    with lab.parity("No page says that sizes with another sum are refused"):
        lab.raises("split to other sizes", lambda: base.split([3, 3]), match="(?i)split")
    with lab.parity("No page says that 0 chunks are refused"):
        lab.raises("0 chunks", lambda: base.chunk(0), match="(?i)greater than 0")
    with lab.parity("No page says that a length beyond the dimension is refused"):
        lab.raises("narrow too far", lambda: base.narrow(0, 5, 3), match="(?i)exceeds|length")
    lab.raises("narrow a negative length", lambda: base.narrow(0, 1, -1), match="(?i)non-negative")
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises("unbind a dimension that does not exist", lambda: base.unbind(2), IndexError)
    with lab.parity("No page says that 0 sections are refused"):
        lab.raises("tensor_split into 0", lambda: base.tensor_split(0), match="(?i)larger than 0")
    with lab.parity("No page says that a tensor without dimensions is refused"):
        lab.raises("tensor_split of no dimensions", lambda: base[0, 0].tensor_split(2), match="(?i)at least")
    with lab.parity("The page lists the accepted indices, but does not say that other indices are refused"):
        lab.raises(
            "places that are floats", lambda: base.tensor_split(torch.tensor([1.0, 2.0])), match="(?i)long"
        )
        lab.raises(
            "places of two dimensions", lambda: base.tensor_split(torch.tensor([[1], [2]])), match="(?i)dim"
        )


@behaviour(
    "shape",
    dtypes=("float32", "int64", "bool"),
    level="core",
    must_detect=("value", "error"),
    page="generated/torch.transpose.html",
)
def transposing(lab: Lab) -> None:
    """``transpose``, ``permute``, ``t``, ``T``, ``mT``, ``swapdims`` and ``movedim`` agree with NumPy.
    Dimensions may be negative, must exist, and may appear only once.
    """
    base = lab.integers(2, 3, 4, 2)
    array = to_widest_numpy_array(base)
    for first_dim in range(-4, 4):
        for second_dim in (0, -1, 2):
            lab.expect(
                f"transpose({first_dim}, {second_dim})",
                base.transpose(first_dim, second_dim),
                numpy.swapaxes(array, first_dim, second_dim),
            )
    lab.expect("permute", torch.permute(base, (3, 1, -4, 2)), array.transpose(3, 1, 0, 2))
    lab.expect("movedim", base.movedim((0, -1), (2, 0)), numpy.moveaxis(array, (0, -1), (2, 0)))
    lab.expect("moveaxis", torch.moveaxis(base, 1, -1), numpy.moveaxis(array, 1, -1))
    lab.expect("swapdims", base.swapdims(0, 3), numpy.swapaxes(array, 0, 3))
    lab.expect("mT", base.mT, numpy.swapaxes(array, -1, -2))
    lab.expect("T", base[0, 0].T, array[0, 0].T)
    lab.same("t of vectors and numbers", [lab.integers(3).t(), lab.integers(1)[0].t()])
    with lab.parity("No page says that a tensor without dimensions is treated as one-dimensional here"):
        lab.same("no dimensions", [lab.integers(1)[0].transpose(0, 0), lab.integers(1)[0].permute(())])
    large = lab.integers(130, 67, low=1)
    lab.expect("a large matrix", large.t().contiguous(), to_widest_numpy_array(large).T)
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises(
            "transpose a dimension that does not exist",
            lambda: base.transpose(0, 4),
            IndexError,
            match="(?i)dim",
        )
    with lab.parity("No page says that too few dimensions are refused"):
        lab.raises("permute too few", lambda: base.permute(0, 1), match="(?i)dim")
    with lab.parity("No page says that a repeated dimension is refused"):
        lab.raises(
            "permute twice the same", lambda: base.permute(0, 0, 1, 2), match="(?i)unique|repeated|duplicate"
        )
    lab.raises("t of three dimensions", lambda: base[0].t(), match="(?i)2D|2 dim|<= 2")
    with lab.parity("No page says that mT refuses a vector"):
        lab.raises("mT of a vector", lambda: lab.integers(3).mT, match="(?i)matri")
    with lab.parity("No page says that different numbers of sources and destinations are refused"):
        lab.raises("movedim of other numbers", lambda: base.movedim((0, 1), (2,)), match="(?i)dim")
    lab.raises(
        "movedim with a repeated source", lambda: base.movedim((0, 0), (1, 2)), match="(?i)unique|repeated"
    )
    with lab.parity("No page says that a dimension out of range is refused"):
        lab.raises("movedim out of range", lambda: base.movedim(0, 5), IndexError)


@behaviour(
    "shape",
    dtypes=ALL,
    level="core",
    must_detect=("value",),
    capabilities=("storage", "strides"),
    page="generated/torch.Tensor.resize_.html",
)
def resizing_in_place(lab: Lab) -> None:
    """``resize_`` and ``resize_as_`` change shape and strides in place and keep the first elements of the
    memory. They enlarge the storage if it is too small, and never shrink it.
    """
    base = lab.integers(2, 3, low=0, high=6)
    elements_before = to_widest_numpy_array(base).ravel()
    result = base.resize_(3, 2)
    lab.holds("resize_ returns its input", result is base)
    lab.expect("the same number", base, elements_before.reshape(3, 2))
    size = base.untyped_storage().nbytes()
    base.resize_(2)
    lab.expect("fewer", base, elements_before[:2])
    lab.expect("the memory after fewer", base.untyped_storage().nbytes(), size)
    base.resize_(4, 3)
    lab.expect("first elements after enlarging", base.view(-1)[:6], elements_before)
    lab.same("shape and strides after enlarging", (base.shape, lab.strides(base)))
    lab.holds(
        "resize_ to more elements enlarges the storage",
        base.untyped_storage().nbytes() >= 12 * base.element_size(),
    )
    lab.same("nothing", (base.resize_(0, 4).shape, lab.strides(base)))
    turned = lab.integers(3, 2, low=0, high=6).t()
    like = lab.integers(2, 2).resize_as_(turned)
    lab.same("resize_as_", (like.shape, lab.strides(like), like.is_contiguous()))
    with lab.parity("No page says that a negative size is refused"):
        lab.raises("a negative size", lambda: base.resize_(-1, 2))


@behaviour(
    "shape",
    capabilities=("channels_last", "strides"),
    must_detect=("error",),
    page="generated/torch.Tensor.resize_as_.html",
)
def resizing_to_memory_formats(lab: Lab) -> None:
    """``resize_`` and ``resize_as_`` accept a memory format. With ``preserve_format``, ``resize_as_`` copies
    the format of the other tensor, and ``resize_`` raises an error. ``resize_as_`` of a tensor that already
    has the requested shape does not change its strides.
    """
    base = lab.integers(2, 3, 4, 5)
    last = base.to(memory_format=torch.channels_last)
    for memory_format in (torch.contiguous_format, torch.channels_last):
        result = lab.integers(40).resize_(2, 3, 4, 5, memory_format=memory_format)
        lab.same(f"strides for {memory_format}", lab.strides(result))
        result = lab.integers(40).resize_as_(last, memory_format=memory_format)
        lab.same(f"strides of resize_as_ with {memory_format}", lab.strides(result))
    result = lab.integers(40).resize_as_(last, memory_format=torch.preserve_format)
    with lab.parity("No page says what resize_as_ does with preserve_format"):
        lab.same(
            "strides for preserve_format",
            (lab.strides(result), result.is_contiguous(memory_format=torch.channels_last)),
        )
    turned = lab.integers(4, 3).t()
    lab.expect(
        "strides of resize_as_ to the present shape",
        (lab.strides(turned.resize_as_(turned)), lab.strides(turned.resize_as_(lab.integers(3, 4)))),
        ((1, 3), (1, 3)),
    )
    with lab.parity("No page says that resize_ refuses preserve_format"):
        lab.raises(
            "resize_ with preserve_format",
            lambda: base.resize_(2, memory_format=torch.preserve_format),
            match="(?i)memory format",
        )


@behaviour(
    "shape",
    must_detect=("error",),
    page="generated/torch.Tensor.resize_.html",
    basis="parity",
    ground="No page says that resize_ refuses sizes beyond 64 bits",
)
def sizes_beyond_memory(lab: Lab) -> None:
    """``resize_`` raises an error for sizes whose product or number of bytes exceeds a 64-bit integer."""
    base = lab.integers(2)
    lab.raises(
        "sizes whose product exceeds 64 bits", lambda: base.resize_(2**40, 2**40), RuntimeError, TypeError
    )
    lab.raises("bytes beyond 64 bits", lambda: base.resize_(2**62, 2), RuntimeError, TypeError)
    with lab.consistent("Work that follows a refused call must agree with work without such a call"):
        lab.expect("another tensor afterwards", lab.integers(2) * 0, [0, 0])


@behaviour(
    "shape",
    dtypes=("float32", "int64"),
    level="core",
    must_detect=("value",),
    capabilities=("strides",),
    page="generated/torch.Tensor.is_contiguous.html",
    ground="strides of dimensions of size 1 have no effect, as follows from contiguity in memory",
)
def contiguity(lab: Lab) -> None:
    """``is_contiguous`` depends only on sizes and strides. The strides of dimensions of size 1 and of tensors
    without elements are ignored. ``contiguous`` returns the elements in row-major order.
    """
    base = lab.integers(4, 1, 5)
    lab.expect("base", base.is_contiguous(), True)
    lab.expect(
        "contiguous with any stride of a size of 1",
        base.as_strided((4, 1, 5), (5, 77, 1)).is_contiguous(),
        True,
    )
    lab.expect("transposed", base.transpose(0, 2).is_contiguous(), False)
    lab.expect("contiguous after transposing a size of 1", base.transpose(0, 1).is_contiguous(), True)
    lab.expect("gaps", base[:, :, ::2].is_contiguous(), False)
    with lab.parity("No page says that a tensor without elements is contiguous"):
        lab.expect("no elements", base[:, :, ::2][:0].is_contiguous(), True)
    lab.expect("expanded", base.expand(4, 3, 5).is_contiguous(), False)
    turned = base.transpose(0, 2).contiguous()
    lab.same("contiguous", turned, strides=True)
    lab.holds("the result of contiguous is contiguous", turned.is_contiguous())
    lab.same("of a row", base[2].contiguous(), strides=True)


@behaviour(
    "shape",
    dtypes=("float32", "int64"),
    level="core",
    must_detect=("shape", "error"),
    page="generated/torch.atleast_3d.html",
    ground="The pages give the number of dimensions; most positions follow from examples",
)
def at_least_so_many_dimensions(lab: Lab) -> None:
    """``atleast_1d``, ``atleast_2d`` and ``atleast_3d`` add dimensions as in NumPy, for one tensor and for
    several tensors.
    """
    tensors = [
        lab.integers(1)[0],
        lab.integers(3),
        lab.integers(2, 3),
        lab.integers(2, 3, 4),
        lab.integers(1, 2, 3, 2),
    ]
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        function, reference = getattr(torch, name), getattr(numpy, name)
        for tensor in tensors:
            with (
                lab.parity("No page says on which side of a vector a dimension is added")
                if tensor.dim() == 1 and name != "atleast_1d"
                else contextlib.nullcontext()
            ):
                lab.expect(
                    f"{name} of {tensor.dim()} dimensions",
                    function(tensor),
                    reference(to_widest_numpy_array(tensor)),
                )
        several = [tensor for tensor in tensors if tensor.dim() != 1]
        lab.same(f"{name} of several", list(function(*several)))
        lab.same(f"{name} of a list", list(function(several)))
        with lab.parity("No page says that a Python number is refused"):
            lab.raises(f"{name} of a number", lambda: function(3), TypeError, RuntimeError)


@behaviour(
    "shape",
    capabilities=("autograd",),
    level="training",
    must_detect=("value",),
    page="generated/torch.Tensor.backward.html",
    ground="The page calls the result the gradient; its values follow from the definition",
)
def backward_through_shapes(lab: Lab) -> None:
    """Gradients flow back to the elements that ``atleast_3d``, ``expand``, ``reshape``, ``split``, ``flip``,
    ``repeat``, ``roll``, ``movedim``, ``diagonal``, ``unfold`` and ``masked_select`` moved or repeated.
    """
    programs = {
        "atleast_3d": lambda x: torch.atleast_3d(x).mul(lab.put([[[2.0]], [[3.0]]])),
        "expand": lambda x: x.expand(3, 2, 3),
        "reshape of a transpose": lambda x: x.t().reshape(-1)[:4],
        "split": lambda x: x.split(2, 1)[1],
        "flip": lambda x: x.flip(0)[0] * 2,
        "repeat": lambda x: x.repeat(2, 2),
        "roll": lambda x: x.roll(1, 1)[:, :2],
        "movedim": lambda x: x.movedim(0, 1)[1],
        "diagonal": lambda x: x.diagonal(),
        "unfold": lambda x: x.unfold(1, 2, 1),
    }
    if lab.target.capable("data_dependent_shapes"):
        programs["masked_select"] = lambda x: x.masked_select(lab.put([True, False, True]))
    for name, program in programs.items():
        x = lab.integers(2, 3).requires_grad_()
        program(x).sum().backward()
        lab.same(name, x.grad)


@behaviour("shape", must_detect=("shape", "error"), page="generated/torch.broadcast_shapes.html")
def broadcast_shapes_of_sizes(lab: Lab) -> None:
    """``broadcast_shapes`` returns the shape to which tensors of the given shapes broadcast. Incompatible
    shapes raise an error.
    """
    for shapes in (((2, 1), (3,)), ((1,), ()), ((4, 1, 3), (2, 1)), ((0, 1), (5,)), (3, (2, 3))):
        expected = torch.broadcast_tensors(*[torch.empty(s, device=lab.device) for s in shapes])[0].shape
        lab.expect(f"of {shapes}", torch.broadcast_shapes(*shapes), expected)
    lab.raises(
        "2 and 3",
        lambda: torch.broadcast_shapes((2,), (3,)),
        RuntimeError,
        ValueError,
        type_is_documented=True,
    )
    with lab.parity("No page says that a negative size is refused"):
        lab.raises("a negative size", lambda: torch.broadcast_shapes((-2,), (1,)), RuntimeError, ValueError)
