"""Check operators of torch's operator database on tensors of all sparse layouts: the results equal the
results of dense tensors.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd import gradcheck

from conformance import torch_testing_internals
from conformance.behaviours.behaviour import ALL, behaviour
from conformance.behaviours.lab import Lab
from conformance.framework.trees import tree_map

#: ``torch`` as an untyped object: its type stubs lack the validation functions and some arguments of the
#: sparse factories.
untyped_torch: Any = torch

COO = (torch.sparse_coo,)
ROW_LAYOUTS = (torch.sparse_csr, torch.sparse_bsr)
COMPRESSED = (*ROW_LAYOUTS, torch.sparse_csc, torch.sparse_bsc)
LAYOUTS = (*COO, *COMPRESSED)

DTYPES = ("float32", "float64", "int64", "complex64")


def _operators_named(names: tuple[str, ...]) -> list[Any]:
    """Return the entries of the operator database whose names are in ``names``."""
    return [op for op in torch_testing_internals.op_db() if op.name in names]


def _supports_sparse(op: Any) -> bool:
    """Return whether an entry of the operator database declares support for a sparse layout."""
    return any(getattr(op, f"supports_sparse{end}", False) for end in ("", "_csr", "_csc", "_bsr", "_bsc"))


def _samples_on_device(
    lab: Lab, op: Any, layout: torch.layout, *, requires_grad: bool = False, limit: int = 200
) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield a name, the sparse input, the other arguments and the keyword arguments of each sample of an
    operator, on the lab's device.
    """

    def detached_on_device(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return lab.to(leaf.detach()).requires_grad_(leaf.requires_grad)
        return leaf

    seed = torch_testing_internals.seed_for(op.name, str(layout), str(lab.dtype))
    samples = torch_testing_internals.sparse_sample_inputs(
        op, layout, lab.dtype, requires_grad=requires_grad, seed=seed, limit=limit
    )
    for number, sample in enumerate(samples):
        options = dict(sample.kwargs)
        if "device" in options:
            options["device"] = lab.device
        name = f"{op.name} of {layout} [{number}]"
        yield (
            name,
            detached_on_device(sample.input),
            tree_map(detached_on_device, sample.args),
            tree_map(detached_on_device, options),
        )


def _to_dense(value: torch.Tensor) -> torch.Tensor:
    """Return the value as a dense tensor."""
    return value if value.layout is torch.strided else value.to_dense()


def _agree_up_to_rounding(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Return whether two dense tensors have the same shape and dtype, and values that differ only by
    rounding.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False
    wide = torch.complex128 if actual.is_complex() else torch.float64
    return torch.allclose(actual.to(wide), expected.to(wide), rtol=1e-4, atol=1e-4, equal_nan=True)


def _has_consistent_indices_and_values(value: Any) -> bool:
    """Return True if the indices and values of a sparse tensor are consistent. If they are not, torch raises
    an error.

    The check uses copies on the CPU, because torch validates only on a fixed list of devices.
    """
    if value.layout is torch.sparse_coo:
        parts = value._indices().cpu(), value._values().cpu()
        untyped_torch._validate_sparse_coo_tensor_args(*parts, value.shape)
    elif value.layout is not torch.strided:
        parts = *(index.cpu() for index in _compressed_and_plain_indices(value)), value.values().cpu()
        untyped_torch._validate_sparse_compressed_tensor_args(*parts, value.shape, value.layout)
    return True


def _compressed_and_plain_indices(value: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the compressed and the plain indices of a tensor of a compressed layout."""
    if value.layout in ROW_LAYOUTS:
        return value.crow_indices(), value.col_indices()
    return value.ccol_indices(), value.row_indices()


@behaviour(
    "sparse",
    dtypes=DTYPES,
    capabilities=("sparse_compressed",),
    must_detect=("value",),
    ground="The page says that the storage format does not influence the meaning of an operation",
)
def reductions_of_sparse_layouts(lab: Lab) -> None:
    """Each reduction of the operator database that supports sparse tensors returns the result of the dense
    tensor, for every sparse layout.
    """
    entries = [
        op
        for op in torch_testing_internals.op_db()
        if torch_testing_internals.is_reduction(op)
        and not op.name.startswith("masked.")
        and _supports_sparse(op)
    ]
    lab.same("entries", [op.name for op in entries])
    for op in entries:
        for layout in LAYOUTS:
            for name, tensor, args, options in _samples_on_device(lab, op, layout):
                with lab.parity("The page of sparse tensors does not list this reduction"):
                    result = _to_dense(op.op(tensor, *args, **options))
                lab.close(name, result, roundings=64)
                dense = op.op(tensor.to_dense(), *args, **options)
                lab.holds(
                    f"{name} equals the result of the dense tensor", _agree_up_to_rounding(result, dense)
                )


@behaviour(
    "sparse",
    dtypes=("float32", "float64", "complex64"),
    capabilities=("sparse_compressed", "autograd"),
    must_detect=("value",),
    ground="The gradient of a sum is one everywhere; the page gives all layouts the same meaning",
)
def gradients_of_reductions_of_sparse_layouts(lab: Lab) -> None:
    """For every sparse layout, the gradient of a sum is the same number for each element."""
    for op in _operators_named(("sum",)):
        for layout in LAYOUTS:
            for name, tensor, args, options in _samples_on_device(lab, op, layout, requires_grad=True):
                with lab.parity("The page of sparse tensors does not list this reduction"):
                    result = op.op(tensor, *args, **options)
                    total = result.sum() if result.numel() else result
                    total.abs().backward()
                expected = torch.ones(tensor.shape, dtype=lab.dtype, device=lab.device) * torch.sgn(
                    total.detach()
                )
                gradient = _to_dense(tensor.grad)
                lab.close(f"gradient of {name}", gradient, roundings=64)
                lab.holds(
                    f"gradient of {name} equals the gradient of the dense tensor",
                    _agree_up_to_rounding(gradient, expected),
                )


@behaviour(
    "sparse",
    dtypes=DTYPES,
    capabilities=("sparse_compressed",),
    must_detect=("value",),
    ground="The page says that the storage format does not influence the meaning of an operation",
)
def products_of_sparse_layouts(lab: Lab) -> None:
    """Each elementwise binary operator of the operator database that supports sparse tensors returns the
    result of dense tensors, for every sparse layout. The result has the shape, the layout and the numbers of
    sparse and dense dimensions of the first argument.
    """
    entries = [
        op
        for op in torch_testing_internals.op_db()
        if torch_testing_internals.is_elementwise_binary(op) and _supports_sparse(op)
    ]
    lab.same("entries", [op.name for op in entries])
    for op, layout in itertools.product(entries, LAYOUTS):
        pairs = [
            (name, tensor, args[0])
            # The database's later samples have a million elements. Small matrices replace them below.
            for name, tensor, args, _ in _samples_on_device(lab, op, layout, limit=12 if layout in COO else 2)
        ]
        block = (2, 3) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
        first_sparse, second_sparse = (
            lab.integers(4, 6, low=-1, high=2).to_sparse(layout=layout, blocksize=block) for _ in range(2)
        )
        pairs.append((f"{op.name} of {layout} and a number", first_sparse, lab.integers(1)[0]))
        if layout in (torch.sparse_coo, torch.sparse_csr):
            pairs.append((f"{op.name} of {layout} and another sparse tensor", first_sparse, second_sparse))
        for name, tensor, operand in pairs:
            with (
                contextlib.nullcontext()
                if layout in COO
                else lab.parity("The page lists no elementwise product of compressed tensors")
            ):
                result = op.op(tensor, operand)
            form = [result.shape, result.sparse_dim(), result.dense_dim(), result.layout]
            with lab.parity("No page gives the layout and the sparse and dense dimensions of a product"):
                lab.same(f"form of {name}", form)
            first_argument_form = [tensor.shape, tensor.sparse_dim(), tensor.dense_dim(), layout]
            with lab.parity("No page gives the layout and the sparse and dense dimensions of a product"):
                lab.holds(
                    f"{name} has the shape, layout and dimensions of its first argument",
                    form == first_argument_form,
                )
            lab.close(name, _to_dense(result), roundings=64)
            dense = op.op(tensor.to_dense(), _to_dense(operand))
            lab.holds(
                f"{name} equals the result of dense tensors", _agree_up_to_rounding(_to_dense(result), dense)
            )


@behaviour(
    "sparse",
    dtypes=("float32", "float64"),
    capabilities=("sparse_compressed",),
    must_detect=("value",),
    page="generated/torch.zeros_like.html",
)
def factories_like_sparse_layouts(lab: Lab) -> None:
    """Each ``*_like`` factory of the operator database that supports sparse tensors copies properties of its
    argument: size, dtype, layout, block size, and numbers of sparse and dense dimensions. Keyword arguments
    override them.
    """
    entries = [op for op in torch_testing_internals.op_db() if "_like" in op.name and _supports_sparse(op)]
    lab.same("entries", [op.name for op in entries])
    for op in entries:
        for layout in LAYOUTS:
            for name, tensor, args, options in _samples_on_device(lab, op, layout):
                requested_layout = options.get("layout", layout)
                if requested_layout in COMPRESSED and requested_layout is not layout:
                    continue  # torch supports this conversion only on a fixed list of devices
                with (
                    contextlib.nullcontext()
                    if op.name == "zeros_like"
                    else lab.parity("The page of sparse tensors does not list this factory")
                ):
                    result = op.op(tensor, *args, **options)
                batch = tensor.dim() - tensor.sparse_dim() - tensor.dense_dim()
                form = [result.shape, result.dtype, result.layout, result.device.type]
                device = lab.device.type
                expected_form = [tensor.shape, options.get("dtype", lab.dtype), requested_layout, device]
                lab.holds(f"{name} has the requested shape, dtype, layout and device", form == expected_form)
                sparse, dense = batch + tensor.sparse_dim(), tensor.dense_dim()
                if requested_layout is torch.strided:
                    sparse, dense = 0, tensor.dim()
                elif requested_layout is not torch.sparse_coo:
                    sparse -= batch
                with lab.parity("No page says that numbers of sparse and dense dimensions are copied"):
                    lab.holds(
                        f"{name} has the expected numbers of sparse and dense dimensions",
                        [result.sparse_dim(), result.dense_dim()] == [sparse, dense],
                    )
                if result.layout in (torch.sparse_bsr, torch.sparse_bsc):
                    block_dims = slice(batch + 1, batch + 3)
                    with lab.parity("No page says that the block size is copied"):
                        lab.holds(
                            f"{name} has the block size of its argument",
                            result.values().shape[block_dims] == tensor.values().shape[block_dims],
                        )
                lab.holds(
                    f"indices and values of {name} are consistent", _has_consistent_indices_and_values(result)
                )
                if op.name == "zeros_like":
                    lab.same(
                        f"{name}: dense", result.to_dense() if result.layout is not torch.strided else result
                    )


@behaviour(
    "sparse",
    dtypes=("float32", "float64", "int64"),
    must_detect=("value",),
    page="masked.html",
    basis="consistency",
    ground="The reduction of the COO tensor must agree with the reduction of its dense form",
)
def masked_reductions_over_no_dimensions(lab: Lab) -> None:
    """A masked reduction of a COO tensor with an empty list of dimensions reduces over all dimensions, as for
    a dense tensor.
    """
    entries = [
        op
        for op in torch_testing_internals.op_db()
        if op.name.startswith("masked.") and getattr(op, "supports_sparse", False)
    ]
    lab.same("entries", [op.name for op in entries])
    for op in entries:
        seed = torch_testing_internals.seed_for(op.name, str(lab.dtype))
        samples = torch_testing_internals.sample_inputs(op, lab.dtype, requires_grad=False, seed=seed)
        for number, sample in enumerate(samples):
            mask = sample.kwargs.get("mask")
            if sample.kwargs.get("dim") != 0 or (mask is None and op.name != "masked.sum"):
                continue  # without a mask, torch supports only masked.sum of sparse tensors
            tensor = lab.put(sample.input)
            options = {**sample.kwargs, "dim": (), "mask": None if mask is None else lab.put(mask)}
            result = op.op(tensor.to_sparse(), **options)
            name = f"{op.name} [{number}]"
            with lab.parity("No page gives the layout of a masked reduction"):
                lab.same(f"layout of {name}", result.layout)
            lab.close(name, result.to_dense(), roundings=64)
            lab.holds(
                f"{name} equals the result of the dense tensor",
                _agree_up_to_rounding(result.to_dense(), op.op(tensor, **options)),
            )


@behaviour(
    "sparse",
    dtypes=ALL,
    capabilities=("sparse_compressed",),
    must_detect=("value",),
    page="generated/torch.Tensor.sparse_mask.html",
)
def masks_of_all_layouts(lab: Lab) -> None:
    """``sparse_mask`` with a mask of any layout returns a tensor with the mask's indices and the elements of
    the dense tensor. Masking the dense form of the mask with the mask returns the mask.
    """
    pattern = lab.put([[1, 0, 0, 1], [0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0]], dtype=torch.bool)
    for layout in LAYOUTS:
        block = (2, 2) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
        mask: Any = pattern.to_sparse(layout=layout, blocksize=block)
        mask = mask.coalesce() if layout in COO else mask
        dense = lab.integers(4, 4, low=1)
        result = dense.sparse_mask(mask)
        lab.same(f"dense of {layout}", [result.to_dense(), result.layout, result.dtype])
        if layout in COO:
            indices_equal = torch.equal(result.coalesce().indices(), mask.indices())
            ones = untyped_torch.sparse_coo_tensor(
                mask.indices(), torch.ones_like(mask.values(), dtype=lab.dtype), (4, 4)
            )
        else:
            indices_equal = all(
                torch.equal(a, b)
                for a, b in zip(
                    _compressed_and_plain_indices(result), _compressed_and_plain_indices(mask), strict=True
                )
            )
            values = torch.ones_like(mask.values(), dtype=lab.dtype)
            ones = untyped_torch.sparse_compressed_tensor(
                *_compressed_and_plain_indices(mask), values, (4, 4), layout=layout
            )
        lab.holds(f"the result has the mask's indices, {layout}", indices_equal)
        lab.holds(
            f"the result has the elements at the mask's indices, {layout}",
            torch.equal(result.to_dense(), dense * ones.to_dense()),
        )
        itself = mask.to_dense().sparse_mask(mask)
        lab.holds(
            f"masking the mask's dense form returns the mask, {layout}",
            torch.equal(itself.to_dense(), mask.to_dense()),
        )


@behaviour(
    "sparse",
    dtypes=("float64",),
    capabilities=("sparse_compressed", "autograd"),
    must_detect=("value",),
    page="generated/torch.sparse.as_sparse_gradcheck.html",
    basis="consistency",
    ground="analytical gradients must agree with differences of the forward function",
)
def gradcheck_of_all_layouts(lab: Lab) -> None:
    """``gradcheck`` passes for conversions, sums and values of sparse tensors of every layout, and for their
    constructors, with and without masked gradients.
    """
    check = torch.sparse.as_sparse_gradcheck(gradcheck)
    dense = lab.put([[1.0, 2.0], [0.0, 3.0]], dtype=lab.dtype)
    functions: dict[str, Any] = {
        "to_dense": torch.Tensor.to_dense,
        "sum": torch.Tensor.sum,
        "itself": lambda x: x,
        "to_sparse": torch.Tensor.to_sparse,
        "values": lambda x: x.values(),
    }
    for layout, masked, fast in itertools.product(LAYOUTS, (False, True), (False, True)):
        block = (1, 2) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
        for name, function in functions.items():
            tensor = dense.to_sparse(layout=layout, blocksize=block).requires_grad_()
            with (
                lab.parity("The page of sparse tensors does not list torch.sum")
                if name == "sum"
                else contextlib.nullcontext()
            ):
                passed = check(function, tensor, masked=masked, fast_mode=fast)
            lab.same(f"gradcheck of {name} of {layout}, masked={masked}, fast_mode={fast}", passed)
    for layout, masked in itertools.product(LAYOUTS, (False, True)):
        block = (1, 2) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
        template: Any = dense.to_sparse(layout=layout, blocksize=block)
        indices = (template.indices(),) if layout in COO else _compressed_and_plain_indices(template)

        def dense_from_values(
            values: torch.Tensor,
            layout: torch.layout = layout,
            indices: tuple[torch.Tensor, ...] = indices,
            masked: bool = masked,
        ) -> Any:
            if layout in COO:
                sparse = untyped_torch.sparse_coo_tensor(*indices, values, (2, 2))
            else:
                sparse = untyped_torch.sparse_compressed_tensor(*indices, values, (2, 2), layout=layout)
            return sparse.to_dense(masked_grad=masked)

        values = template.values().detach().clone().requires_grad_()
        name = f"construction of {layout}, masked={masked}"
        lab.same(
            f"{name}: requires_grad",
            [dense_from_values(values).requires_grad, dense_from_values(values.detach()).requires_grad],
        )
        lab.same(name, gradcheck(dense_from_values, (values,), masked=masked))
    lab.same("dense", dense * 2)
