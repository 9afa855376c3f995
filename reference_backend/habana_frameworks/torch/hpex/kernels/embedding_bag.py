"""Embedding bags (sums of table rows), with index tensors that make the backward pass a gather."""

from __future__ import annotations

from typing import Any

import torch


class EmbeddingBagPreProc:
    """Callable that computes, on the host, the index tensors that `EmbeddingBag` needs."""

    def __call__(
        self, indices: torch.Tensor, offsets: torch.Tensor, rows: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the index tensors for the forward pass and for the backward pass of `EmbeddingBag`.

        Args:
            indices: row indices of all bags, concatenated, on the CPU.
            offsets: for each bag, the position of its first index in ``indices``, on the CPU.
            rows: number of table rows.

        Returns:
            Six int32 tensors on the CPU. Forward pass: row indices of all bags, offsets of the bags, number
                of
            indices. Backward pass: the bags that contain each row, concatenated, offsets of the rows, number
                of
            indices. The last offset is the number of indices.

        Raises:
            ValueError: a tensor is not on the CPU.
        """
        for name, tensor in (("indices", indices), ("offsets", offsets)):
            if tensor.device.type != "cpu":
                raise ValueError(f"EmbeddingBagPreProc works on the host, but {name} is on {tensor.device}")
        count = indices.numel()
        bounds = torch.cat((offsets.long(), torch.tensor([count])))
        bag = torch.repeat_interleave(torch.arange(offsets.numel()), bounds.diff())
        order = torch.argsort(indices.long(), stable=True)
        of_rows = torch.bincount(indices.long(), minlength=rows)
        starts = torch.cat((torch.zeros(1, dtype=torch.int64), of_rows.cumsum(0)))
        number = torch.tensor([count], dtype=torch.int32)
        return (
            indices.int(), bounds.int(), number, bag[order].int(), starts.int(), number.clone()
        )  # fmt: skip


#: The spelling in the Gaudi bridge. Habana's guide has the spelling `EmbeddingBagPreProc`.
EmbeddingBagPreproc = EmbeddingBagPreProc


class EmbeddingBag(torch.autograd.Function):
    """Autograd function like `torch.nn.functional.embedding_bag` with mode="sum"."""

    @staticmethod
    def forward(
        ctx: Any,
        table: torch.Tensor,
        indices: torch.Tensor,
        offsets: torch.Tensor,
        valid_count: torch.Tensor,
        indices_bwd: torch.Tensor,
        offsets_bwd: torch.Tensor,
        valid_count_bwd: torch.Tensor,
        kernel_mode: int = 0,
    ) -> torch.Tensor:
        """Return the sum of table rows for each bag, of shape [bags, features].

        ``table`` has the shape [rows, features]. `EmbeddingBagPreProc` computes the other tensors.
        """
        ctx.save_for_backward(indices_bwd, offsets_bwd, valid_count_bwd)
        ctx.shape, ctx.mode = table.shape, kernel_mode
        sums: torch.Tensor = torch.ops.hpu.embedding_bag_sum(
            table, indices, offsets, valid_count, kernel_mode
        )
        return sums

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        """Return the gradient of the table: for each row, the sum of the gradients of bags with this row."""
        gradient = torch.empty(ctx.shape, dtype=grads[0].dtype, device=grads[0].device)
        torch.ops.hpu.embedding_bag_sum_bwd_out(gradient, grads[0], *ctx.saved_tensors, ctx.mode)
        return (gradient, *[None] * 7)
