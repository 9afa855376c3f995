"""Build an FX graph from the description of a recorded graph.

The FX graph reads memory only at its start and writes memory only at its end. All other nodes are functional
operators on tensors. Every buffer is a list of *pieces*. A piece is a layout (which elements) and the FX
value that these elements currently have. A read finds the piece that contains the elements, and derives the
result from the value of the piece, by views if possible. A write replaces or updates a piece. At the end,
`copy_` writes the values to memory. Inductor merges each `copy_` into the kernel that computes the value.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import functional_operators, input_updates, view_recovery
from .description import (
    Call,
    Description,
    HostScalar,
    Layout,
    NotFusable,
    TensorRef,
    parse_description,
    tensor_refs,
)
from .input_layouts import plan_input_layouts, without_expanded_dims

aten = torch.ops.aten
CPU = torch.device("cpu")
# torch converts Python numbers to 0-dim tensors of these dtypes. So a scalar of these dtypes may be passed as
# a number.
_NUMBERS = (torch.float64, torch.int64, torch.bool, torch.complex128)


@dataclass(frozen=True)
class Argument:
    """A tensor argument of fused code; `access` is "read", "update" (read and written) or "write"."""

    buffer: int
    layout: Layout
    access: str


@dataclass
class BuiltGraph:
    """A GraphModule that writes its results to its arguments; `fakes` are example values of the arguments."""

    module: torch.fx.GraphModule
    arguments: list[Argument]
    fakes: list[torch.Tensor]


@dataclass
class BufferPiece:
    """Elements of a buffer and their value; `placeholder` is set if the elements belong to an input."""

    layout: Layout
    value: torch.fx.Node
    placeholder: torch.fx.Node | None = None


class FxGraphBuilder:
    """Converter of recorded calls to FX nodes, in execution order."""

    def __init__(self, description: Description) -> None:
        self.description = description
        self.graph = torch.fx.Graph()
        self.fake_mode = FakeTensorMode()
        self.pieces: list[list[BufferPiece]] = [[] for _ in description.buffers]
        self.placeholders: list[tuple[torch.fx.Node, int, Layout]] = []

    def placeholder(self, buffer: int, layout: Layout) -> torch.fx.Node:
        """Add a placeholder for a tensor argument, after the existing placeholders."""
        last = self.placeholders[-1][0] if self.placeholders else None
        insertion = (
            self.graph.inserting_after(last) if last is not None else self.graph.inserting_before(None)
        )
        with insertion:
            node = self.graph.placeholder(f"buffer{buffer}_{len(self.placeholders)}")
        with self.fake_mode:
            node.meta["val"] = torch.empty_strided(
                layout.sizes, layout.strides, dtype=layout.dtype, device=CPU
            )
        self.placeholders.append((node, buffer, layout))
        return node

    def add(self, op: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
        """Add a node for an operator call, with its fake value.

        Raises:
            NotFusable: the operator rejects the fake tensors.
        """
        fake_args, fake_kwargs = torch.fx.map_arg((args, kwargs), lambda node: node.meta["val"])
        try:
            with self.fake_mode:
                value = op(*fake_args, **fake_kwargs)
        except Exception as error:
            reason = str(error).strip().partition("\n")[0] or "no message"  # a bare assert has no message
            raise NotFusable(f"{op}: {type(error).__name__}: {reason}") from error
        node = self.graph.call_function(op, args, kwargs)
        node.meta["val"] = value
        return node

    def full(self, sizes: tuple[int, ...], value: Any, dtype: torch.dtype) -> torch.fx.Node:
        """Add a node for a tensor whose elements all have the same value."""
        return self.add(aten.full.default, list(sizes), value, dtype=dtype, device=CPU, pin_memory=False)

    def convert_to_layout(self, value: torch.fx.Node, layout: Layout) -> torch.fx.Node:
        """Convert a value to the dtype and sizes of the memory to which it is written."""
        if value.meta["val"].dtype != layout.dtype:
            value = self.add(aten._to_copy.default, value, dtype=layout.dtype)
        if tuple(value.meta["val"].shape) != layout.sizes:
            value = self.add(aten.expand.default, value, list(layout.sizes))
        return value

    def read(self, ref: TensorRef) -> torch.fx.Node:
        """Return the node that is the current value of a tensor.

        Raises:
            NotFusable: the layout of the tensor does not fit earlier accesses to the buffer.
        """
        layout = ref.layout
        if layout.numel == 0:
            return self.full(layout.sizes, 0, layout.dtype)
        match = self._find_piece(ref)
        if match is None and any(piece.layout.overlaps(layout) for piece in self.pieces[ref.buffer]):
            self._merge_buffer_pieces(ref.buffer, layout)
            match = self._find_piece(ref)
        if match is None:
            # Unwritten memory has undefined values. Zeros make the results the same in every run.
            return self.full(layout.sizes, 0, layout.dtype)
        piece, steps = match
        value: torch.fx.Node = view_recovery.apply_view(self.add, piece.value, steps)
        return value

    def _find_piece(self, ref: TensorRef) -> tuple[BufferPiece, list[view_recovery.Step]] | None:
        best = None
        for piece in self.pieces[ref.buffer]:
            steps = view_recovery.recover_view(piece.layout, ref.layout)
            if steps is not None and (
                best is None or (view_recovery.is_view_only(steps) and len(steps) < len(best[1]))
            ):
                best = (piece, steps)
        return best

    def write(self, ref: TensorRef, value: torch.fx.Node) -> None:
        """Write a value to the memory of a tensor.

        Raises:
            NotFusable: the layout does not fit earlier accesses to the buffer, or elements share memory.
        """
        layout = ref.layout
        if layout.numel == 0:
            return
        value = self.convert_to_layout(value, layout)
        pieces = self.pieces[ref.buffer]
        match = self._find_piece(ref)
        if match is None:
            touched = [piece for piece in pieces if piece.layout.overlaps(layout)]
            if all(self._is_overwritten_by(layout, piece) for piece in touched):
                self.pieces[ref.buffer] = [piece for piece in pieces if piece not in touched]
                self.pieces[ref.buffer].append(BufferPiece(layout, value))
                return
            self._merge_buffer_pieces(ref.buffer, layout)
            match = self._find_piece(ref)
            if match is None:
                raise NotFusable(
                    "a write overlaps an earlier write, and its layout is not a view of the buffer as a "
                    "one-dimensional tensor"
                )
        piece, steps = match
        piece.value = view_recovery.write_view(self.add, piece.value, steps, value)

    @staticmethod
    def _is_overwritten_by(layout: Layout, piece: BufferPiece) -> bool:
        """Return whether a write of `layout` replaces the piece. A piece of an input is never replaced."""
        if piece.placeholder is not None:
            return False
        (first, end), (old_first, old_end) = layout.span, piece.layout.span
        dense = layout.numel * layout.dtype.itemsize == end - first and view_recovery.is_regular(layout)
        return (dense and first <= old_first and old_end <= end) or view_recovery.recover_view(
            layout, piece.layout
        ) is not None

    def _merge_buffer_pieces(self, buffer: int, also: Layout) -> None:
        """Replace all pieces of a buffer by one piece: the whole buffer as a one-dimensional tensor."""
        pieces = self.pieces[buffer]
        if any(piece.placeholder is not None for piece in pieces):
            raise NotFusable("an access to an input needs a layout that is not a view of a tensor argument")
        if any(piece.layout.dtype != also.dtype for piece in pieces):
            raise NotFusable("one buffer is used with two dtypes")
        line = Layout(also.dtype, (self.description.buffers[buffer][0] // also.dtype.itemsize,), (1,), 0)
        value = self.full(line.sizes, 0, line.dtype)
        for piece in pieces:
            steps = view_recovery.recover_view(line, piece.layout)
            if steps is None:
                raise NotFusable("a tensor exceeds its buffer")
            value = view_recovery.write_view(self.add, value, steps, piece.value)
        self.pieces[buffer] = [BufferPiece(line, value)]

    def call(self, call: Call) -> None:
        """Add the nodes of one recorded call.

        Raises:
            NotFusable: fused code cannot compute the call.
        """
        name, _, overload = call.op.partition(".")
        if name in ("aten::copy_", "aten::fill_", "aten::zero_") and not overload.endswith("out"):
            return self._overwrite_target(call)
        functional = functional_operators.functional_operator_of(call)
        values = {position: self._argument(call, position, functional) for position in functional.arguments}
        node = self._compute(call, functional, values)
        if functional.clones:
            for position in call.writes:
                self._write_results(call.args[position], values[position])
        for position, index in zip(call.writes, functional.mutated, strict=False):
            self._write_results(call.args[position], self._result(functional, node, index))
        written = {ref for position in call.writes for ref in tensor_refs(call.args[position])}
        for ref, index in zip(call.results, functional.results, strict=False):
            new_results = [result for result in tensor_refs(ref) if result not in written]
            if len(new_results) != len(list(tensor_refs(ref))) and new_results:
                raise NotFusable(
                    f"{call.op}: some tensors of a result list are new, and others are written arguments"
                )
            if new_results:
                self._write_results(ref, self._result(functional, node, index))

    def _compute(
        self, call: Call, functional: functional_operators.Functional, values: dict[int, Any]
    ) -> torch.fx.Node:
        """Add a node for the functional operator of a recorded call.

        Host scalars are passed as Python numbers, or as tensors if only tensors give the recorded dtypes.
        """
        scalars = [value for value in values.values() if isinstance(value, HostScalar)]
        forms = (True, False) if scalars and torch.Tag.pointwise in functional.op.tags else (False,)
        self._check_scalars(call, scalars)
        mismatch = ""
        for as_numbers in forms:
            args, kwargs = self._arguments(functional, values, as_numbers)
            self._multiply_alpha(functional, args, kwargs)
            try:
                node = self._round_to_recorded_dtype(call, self.add(functional.op, *args, **kwargs))
                mismatch = self._describe_metadata_mismatch(call, functional, node)
            except NotFusable as error:
                mismatch = str(error)
            if not mismatch:
                return node
        raise NotFusable(f"{call.op}: {mismatch}")

    def _round_to_recorded_dtype(self, call: Call, node: torch.fx.Node) -> torch.fx.Node:
        """Convert the float32 sum of `_multiply_alpha` to the recorded dtype (bfloat16 or float16)."""
        recorded = next((ref.layout.dtype for ref in tensor_refs(list(call.results))), None)
        value = node.meta["val"]
        if recorded in (torch.bfloat16, torch.float16) and getattr(value, "dtype", None) == torch.float32:
            return self.add(aten._to_copy.default, node, dtype=recorded)
        return node

    def _multiply_alpha(
        self, functional: functional_operators.Functional, args: list[Any], kwargs: dict[str, Any]
    ) -> None:
        """Multiply by `alpha` in a separate operator, because Inductor's addmm pattern ignores `alpha`."""
        if functional.op is not aten.add.Tensor and functional.op is not aten.sub.Tensor:
            return
        alpha = kwargs.pop("alpha", 1)
        if alpha == 1 or not isinstance(args[1], torch.fx.Node):
            kwargs |= {} if alpha == 1 else {"alpha": alpha}
            return
        if args[1].meta["val"].dtype in (torch.bfloat16, torch.float16):
            # The product is not rounded before the addition; `_round_to_recorded_dtype` rounds the sum.
            args[1] = self.add(aten._to_copy.default, args[1], dtype=torch.float32)
        args[1] = self.add(aten.mul.Tensor, args[1], alpha)

    def _check_scalars(self, call: Call, scalars: list[HostScalar]) -> None:
        """Reject a comparison of integers with a float scalar, because its computation dtype is not recorded.

        Raises:
            NotFusable: the call compares integers with a float scalar.
        """
        results = [ref.layout.dtype for ref in tensor_refs(list(call.results))]
        integral = [ref for ref in tensor_refs(list(call.args)) if not ref.layout.dtype.is_floating_point]
        if torch.bool in results and integral and any(isinstance(scalar.value, float) for scalar in scalars):
            raise NotFusable(
                f"{call.op}: compares integers with a host scalar in a dtype that is not recorded"
            )

    def _overwrite_target(self, call: Call) -> None:
        """Write the source of copy_, fill_ or zero_ to the target, without reading the old values."""
        (target,) = tensor_refs(call.args[0])
        source = call.args[1] if len(call.args) > 1 else 0
        if isinstance(source, HostScalar):
            source = source.value
        if isinstance(source, TensorRef):
            self.write(target, self.read(source))
        else:
            self.write(target, self.full(target.layout.sizes, source, target.layout.dtype))

    def _argument(self, call: Call, position: int, functional: functional_operators.Functional) -> Any:
        def convert(value: Any) -> Any:
            if isinstance(value, TensorRef):
                node = self.read(value)
                if functional.clones and position in call.writes:
                    node = self.add(aten.clone.default, node)
                return node
            if isinstance(value, list):
                return [convert(item) for item in value]
            return value

        return convert(call.args[position])

    def _arguments(
        self, functional: functional_operators.Functional, values: dict[int, Any], as_numbers: bool
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the operator's positional and keyword arguments.

        Host scalars become numbers if ``as_numbers`` is True and their dtype permits it, otherwise tensors.
        """

        def convert(value: Any) -> Any:
            if isinstance(value, HostScalar):
                if as_numbers and value.dtype in _NUMBERS:
                    return value.value
                return self.full((), value.value, value.dtype)
            if isinstance(value, list):
                return [convert(item) for item in value]
            return value

        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for value, argument in zip(values.values(), functional.op._schema.arguments, strict=False):
            value = functional_operators.convert_recorded_argument(argument, convert(value))
            if not argument.kwarg_only:
                args.append(value)
            elif value is not None:
                kwargs[argument.name] = value
        return args, kwargs

    def _result(
        self, functional: functional_operators.Functional, node: torch.fx.Node, index: int
    ) -> torch.fx.Node:
        if len(functional.op._schema.returns) == 1:
            return node
        return self.get_result(node, index)

    def get_result(self, node: torch.fx.Node, index: int) -> torch.fx.Node:
        """Add a node that selects one result of an operator with several results."""
        chosen = self.graph.call_function(operator.getitem, (node, index))
        chosen.meta["val"] = node.meta["val"][index]
        return chosen

    def _write_results(self, target: Any, value: Any) -> None:
        if isinstance(target, TensorRef):
            self.write(target, value)
        elif isinstance(target, list):
            for index, item in enumerate(target):
                self._write_results(
                    item, value[index] if isinstance(value, list) else self.get_result(value, index)
                )

    def _describe_metadata_mismatch(
        self, call: Call, functional: functional_operators.Functional, node: torch.fx.Node
    ) -> str:
        """Return how dtype or sizes of the node's results differ from the record; empty if they agree."""
        value = node.meta["val"]
        several = len(functional.op._schema.returns) != 1
        written = {ref for position in call.writes for ref in tensor_refs(call.args[position])}
        for ref, index in zip(call.results, functional.results, strict=False):
            fakes = value[index] if several else value
            for result, fake in zip(
                tensor_refs(ref), fakes if isinstance(ref, list) else [fakes], strict=False
            ):
                if result in written:
                    continue
                if fake.dtype != result.layout.dtype:
                    return f"returns {fake.dtype}, but {result.layout.dtype} was recorded"
                if tuple(fake.shape) != result.layout.sizes:
                    return f"returns sizes {tuple(fake.shape)}, but {result.layout.sizes} was recorded"
        return ""

    def finish(self) -> BuiltGraph:
        """Write the values of updated inputs and of outputs to memory, and return the module.

        Raises:
            NotFusable: elements of an output share memory.
        """
        access = {}
        stores: list[tuple[torch.fx.Node, torch.fx.Node]] = []
        for buffer, (_, role) in enumerate(self.description.buffers):
            for piece in self.pieces[buffer]:
                target, value = piece.placeholder, piece.value
                if target is not None and value is not target:
                    access[target] = "update"
                elif role == "output":
                    layout = without_expanded_dims(piece.layout)
                    if not view_recovery.is_regular(layout):
                        raise NotFusable("elements of an output share memory")
                    for dim, (size, old) in enumerate(zip(layout.sizes, piece.layout.sizes, strict=True)):
                        if size != old:
                            value = self.add(aten.slice.Tensor, value, dim, 0, 1)
                    target = self.placeholder(buffer, layout)
                    access[target] = "write"
                else:
                    continue
                stores.append((target, value))
        for target, value in input_updates.copy_values_in_overwritten_inputs(stores, self.add):
            self.add(aten.copy_.default, target, value)
        self.graph.output(())
        self.graph.eliminate_dead_code()
        self._drop_unused_placeholders()
        module = torch.fx.GraphModule({}, self.graph)
        arguments = [
            Argument(buffer, layout, access.get(node, "read")) for node, buffer, layout in self.placeholders
        ]
        return BuiltGraph(module, arguments, [node.meta["val"] for node, _, _ in self.placeholders])

    def _drop_unused_placeholders(self) -> None:
        unused = [entry for entry in self.placeholders if not entry[0].users]
        for entry in unused:
            self.graph.erase_node(entry[0])
            self.placeholders.remove(entry)


def build_module(description: dict[str, Any]) -> BuiltGraph:
    """Build the graph module that computes a described graph.

    Raises:
        NotFusable: fused code cannot compute the graph; the message is the reason.
    """
    parsed = parse_description(description)
    builder = FxGraphBuilder(parsed)
    for buffer, layouts in plan_input_layouts(parsed).items():
        for layout in layouts:
            node = builder.placeholder(buffer, layout)
            builder.pieces[buffer].append(BufferPiece(layout, node, node))
    for call in parsed.calls:
        builder.call(call)
    return builder.finish()
