"""Check that loading a saved sparse tensor with inconsistent indices, values or size raises an error."""

from __future__ import annotations

import io
from typing import Any

import torch

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab


class _PickledAsSparse:
    """An object that is pickled as a sparse tensor with the given parts."""

    def __init__(self, layout: torch.layout, parts: tuple[Any, ...]) -> None:
        self.layout, self.parts = layout, parts

    def __reduce_ex__(self, protocol: Any) -> Any:
        return torch._utils._rebuild_sparse_tensor, (self.layout, self.parts)


@behaviour(
    "serialization",
    capabilities=("sparse", "sparse_compressed"),
    must_detect=("error", "message"),
    page="generated/torch.sparse.check_sparse_tensor_invariants.html",
    ground="The page describes checks in construction; loading constructs the tensor",
)
def saved_sparse_that_does_not_fit(lab: Lab) -> None:
    """Under ``check_sparse_tensor_invariants``, ``torch.load`` raises an error for a sparse tensor of any
    layout whose indices or values do not match its size. This holds with and without ``weights_only``.
    """
    dense = lab.put([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]])
    for layout in (
        torch.sparse_coo,
        torch.sparse_csr,
        torch.sparse_csc,
        torch.sparse_bsr,
        torch.sparse_bsc,
    ):
        block = (1, 1) if layout in (torch.sparse_bsr, torch.sparse_bsc) else None
        tensor: Any = dense.to_sparse(layout=layout, blocksize=block)
        if layout is torch.sparse_coo:
            indices: tuple[Any, ...] = (tensor.indices(),)
        elif layout in (torch.sparse_csr, torch.sparse_bsr):
            indices = (tensor.crow_indices(), tensor.col_indices())
        else:
            indices = (tensor.ccol_indices(), tensor.row_indices())
        forged = {
            "fits": (*indices, tensor.values(), tensor.shape),
            "an index too large": (*indices[:-1], indices[-1] + 7, tensor.values(), tensor.shape),
            "values too few": (*indices, tensor.values()[:2], tensor.shape),
        }
        for name, parts in forged.items():
            buffer = io.BytesIO()
            torch.save({"x": _PickledAsSparse(layout, parts)}, buffer)

            def load_with_invariant_checks(weights_only: bool, buffer: io.BytesIO = buffer) -> Any:
                # Load on the CPU, because torch checks compressed tensors only on a fixed list of devices.
                buffer.seek(0)
                with torch.sparse.check_sparse_tensor_invariants():
                    return torch.load(buffer, map_location="cpu", weights_only=weights_only)["x"]

            for weights in (False, True):
                label = f"{layout}: {name}, weights_only={weights}"
                if name == "fits":
                    with lab.consistent("The loaded tensor and the saved tensor must be equal"):
                        lab.same(label, load_with_invariant_checks(weights).to_dense(), host=True)
                else:
                    lab.raises(
                        label,
                        lambda load=load_with_invariant_checks, weights=weights: load(weights),  # type: ignore[misc]
                        match="inconsistent|not satisfied|same nnz|equal to nnz",
                        type_is_documented=True,
                    )
