"""Boxes and regions of images: non-maximum suppression, region alignment, deformable convolution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def nms_indices(
    boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float, classes: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the indices of the boxes (x1, y1, x2, y2) that non-maximum suppression keeps, best first.

    A box is removed if its intersection over union with a better box exceeds ``iou_threshold``. The function
    runs on the host, because each step depends on the boxes that remain. With ``classes``, only boxes of the
    same class suppress each other.
    """
    order = torch.argsort(scores, descending=True, stable=True).cpu()
    host = boxes.detach().cpu().float()
    kinds = None if classes is None else classes.cpu()
    dead = torch.zeros(order.numel(), dtype=torch.bool)
    remaining = []
    for index in order.tolist():
        if not dead[index]:
            remaining.append(index)
            over = _box_iou(host[index], host) > iou_threshold
            dead |= over if kinds is None else over & (kinds == kinds[index])
    return torch.tensor(remaining, dtype=torch.int64).to(boxes.device)


def habana_nms(
    boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float, score_threshold: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the padded indices of `nms_indices`, the number of indices, and their padded scores.

    Boxes with a score that is not above the threshold are omitted. Padding consists of zeros.
    """
    return _padded_nms_results(
        boxes, scores, _nms_indices_above_score(boxes, scores, iou_threshold, score_threshold)
    )


def habana_nms_meta(
    boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float, score_threshold: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return empty tensors with the shapes of the results of `habana_nms`."""
    indices, count = _padded_nms_shapes(boxes)
    return indices, count, scores.new_empty(boxes.size(0))


def batched_nms_eager(
    boxes: torch.Tensor, scores: torch.Tensor, indexes: torch.Tensor, iou_threshold: float, max_classes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the indices of `nms_indices` with classes, padded with zeros, and the number of indices."""
    if boxes.numel() == 0:
        return indexes.new_zeros(0, dtype=torch.int64), indexes.new_zeros(1, dtype=torch.int64)
    indices, count, _ = _padded_nms_results(boxes, scores, nms_indices(boxes, scores, iou_threshold, indexes))
    return indices, count


def batched_nms_eager_meta(
    boxes: torch.Tensor, scores: torch.Tensor, indexes: torch.Tensor, iou_threshold: float, max_classes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return empty tensors with the shapes of the results of `batched_nms_eager`."""
    return _padded_nms_shapes(boxes)


def batched_nms(
    boxes: torch.Tensor,
    scores: torch.Tensor,
    indexes: torch.Tensor,
    iou_threshold: float,
    shape_tensor1: torch.Tensor,
    shape_tensor2: torch.Tensor,
    max_classes: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Do the same as `batched_nms_eager`. The shape tensors are for hardware and are not used."""
    return batched_nms_eager(boxes, scores, indexes, iou_threshold, max_classes)


def batched_nms_meta(
    boxes: torch.Tensor, scores: torch.Tensor, indexes: torch.Tensor, iou_threshold: float,
    shape_tensor1: torch.Tensor, shape_tensor2: torch.Tensor, max_classes: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return empty tensors with the shapes of the results of `batched_nms`."""
    return _padded_nms_shapes(boxes)


def roi_align(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> torch.Tensor:
    """Return means of bilinear samples of regions (He et al., 2017): [regions, channels, height, width].

    Args:
        input: [batch, channels, rows, columns].
        rois: [regions, 5]: image index, x1, y1, x2, y2.
        spatial_scale: factor of the region coordinates.
        pooled_height: rows of the result.
        pooled_width: columns of the result.
        sampling_ratio: samples of each cell along a side; 0 or less means one sample per pixel of the region.
        aligned: shift coordinates by half a pixel, so that they refer to pixel centres.
    """
    if sampling_ratio <= 0 and not input.is_cpu:
        result: torch.Tensor = torch.ops.hpu.roi_align_by_size(
            input, rois, spatial_scale, pooled_height, pooled_width, aligned
        )
        return result
    size = pooled_height, pooled_width
    return _align_regions(input, rois, spatial_scale, size, sampling_ratio, aligned)


def roi_align_by_size(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    aligned: bool,
) -> torch.Tensor:
    """Do the same as `roi_align`, with one sample per pixel of a region.

    Graphs call this differentiable operator as a unit, because the number of samples depends on values.
    """
    return _align_regions(input, rois, spatial_scale, (pooled_height, pooled_width), 0, aligned).contiguous()


def roi_align_by_size_meta(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    aligned: bool,
) -> torch.Tensor:
    """Return an empty tensor with the shape of the result of `roi_align_by_size`."""
    return input.new_empty((rois.size(0), input.size(1), pooled_height, pooled_width))


def roi_align_by_size_setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    """Save the values that the derivative of `roi_align_by_size` needs."""
    input, rois, scale, _, _, aligned = inputs
    ctx.save_for_backward(rois)
    ctx.about = scale, *input.shape, aligned


def roi_align_by_size_derivative(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    """Return the gradients of the arguments of `roi_align_by_size`. Only the input has a gradient."""
    gradient = torch.ops.hpu.roi_align_by_size_backward(grad, *ctx.saved_tensors, *ctx.about)
    return gradient, None, None, None, None, None


def roi_align_by_size_backward(
    grad: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
    aligned: bool,
) -> torch.Tensor:
    """Return the gradient of `roi_align_by_size` with respect to its input."""
    total = grad.new_zeros((batch_size, height, width, channels))
    cells = grad.movedim(1, -1)[:, :, None, :, None]
    shape, size = (height, width), (grad.size(-2), grad.size(-1))
    for pixels, share in _sampled_pixels(rois, spatial_scale, shape, size, 0, aligned, grad.dtype):
        total.index_put_(pixels, cells * share, accumulate=True)
    return total.movedim(-1, 1).contiguous()


def roi_align_by_size_backward_setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    """Save the values that the derivative of `roi_align_by_size_backward` needs."""
    grad, rois, scale, *_, aligned = inputs
    ctx.save_for_backward(rois)
    ctx.about = scale, grad.size(-2), grad.size(-1), aligned


def roi_align_by_size_backward_derivative(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    """Return the gradients of the arguments of `roi_align_by_size_backward`. Only ``grad`` has a gradient."""
    gradient = torch.ops.hpu.roi_align_by_size(grad, *ctx.saved_tensors, *ctx.about)
    return gradient, None, None, None, None, None, None, None


def roi_align_by_size_backward_meta(
    grad: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
    aligned: bool,
) -> torch.Tensor:
    """Return an empty tensor with the shape of the result of `roi_align_by_size_backward`."""
    return grad.new_empty((batch_size, channels, height, width))


def roi_align_backward(
    grad: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
    sampling_ratio: int,
    aligned: bool,
) -> torch.Tensor:
    """Return the gradient of `roi_align` with respect to its input, without the values of the input."""
    if sampling_ratio <= 0 and not grad.is_cpu:
        shape = batch_size, channels, height, width
        gradient: torch.Tensor = torch.ops.hpu.roi_align_by_size_backward(
            grad, rois, spatial_scale, *shape, aligned
        )
        return gradient
    with torch.enable_grad():
        image = torch.zeros((batch_size, channels, height, width), dtype=grad.dtype, device=grad.device)
        image.requires_grad_()
        out = roi_align(image, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
        return torch.autograd.grad(out, image, grad)[0]


def roi_align_fwd(
    inputs: torch.Tensor,
    rois: torch.Tensor,
    n_rois: torch.Tensor,
    out_h: int,
    out_w: int,
    mode: int,
    sr: int,
    ss: float,
    aligned: bool,
) -> torch.Tensor:
    """Do the same as `roi_align`, for ``rois`` [regions, 4] and their image indices ``n_rois``.

    Raises:
        RuntimeError: the mode is not 0.
    """
    if mode != 0:
        raise RuntimeError(f"roi_align_fwd supports only mode 0 (means), but mode is {mode}")
    return roi_align(inputs, _prepend_image_index(rois, n_rois), ss, out_h, out_w, sr, aligned)


def roi_align_bwd(
    inputs: torch.Tensor,
    rois: torch.Tensor,
    n_rois: torch.Tensor,
    input_shape: torch.Tensor,
    sr: int,
    ss: float,
    aligned: bool,
) -> torch.Tensor:
    """Return the gradient of the input of `roi_align_fwd`. ``inputs`` is the gradient of the result."""
    batch, channels, height, width = input_shape.shape
    return roi_align_backward(
        inputs, _prepend_image_index(rois, n_rois), ss, inputs.size(-2), inputs.size(-1),
        batch, channels, height, width, sr, aligned,
    )  # fmt: skip


def deform_conv2d(
    input: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor,
    bias: torch.Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> torch.Tensor:
    """Return a convolution whose samples are displaced by offsets and weighted by a mask (Zhu et al., 2018).

    Args:
        input: [batch, channels, rows, columns].
        weight: [out, channels / groups, kernel rows, kernel columns].
        offset: [batch, 2 * offset_groups * kernel size, out rows, out columns], row before column.
        mask: as ``offset``, one number for each sample; not used without ``use_mask``.
        bias: [out].
        stride_h: as in a convolution.
        stride_w: see ``stride_h``.
        pad_h: see ``stride_h``.
        pad_w: see ``stride_h``.
        dilation_h: see ``stride_h``.
        dilation_w: see ``stride_h``.
        groups: number of channel groups.
        offset_groups: number of channel groups with separate offsets.
        use_mask: apply the mask.
    """
    batch, channels, height, width = input.shape
    kernel_h, kernel_w = weight.shape[-2:]
    taps = kernel_h * kernel_w
    out_h = (height + 2 * pad_h - dilation_h * (kernel_h - 1) - 1) // stride_h + 1
    out_w = (width + 2 * pad_w - dilation_w * (kernel_w - 1) - 1) // stride_w + 1
    tap = torch.arange(taps, device=input.device)
    row = (tap // kernel_w * dilation_h).reshape(-1, 1, 1) - pad_h
    row = row + (torch.arange(out_h, device=input.device) * stride_h).reshape(1, -1, 1)
    column = (tap % kernel_w * dilation_w).reshape(-1, 1, 1) - pad_w
    column = column + (torch.arange(out_w, device=input.device) * stride_w).reshape(1, 1, -1)
    moved = offset.reshape(batch, offset_groups, taps, 2, out_h, out_w)
    y, x = row + moved[:, :, :, 0], column + moved[:, :, :, 1]
    planes = input.reshape(batch, offset_groups, channels // offset_groups, height * width)
    samples = torch.zeros((), dtype=input.dtype, device=input.device)
    top, left_column = torch.floor(y), torch.floor(x)
    for down in (0, 1):
        for right in (0, 1):
            r, c = top + down, left_column + right
            share = (1 - (y - r).abs()) * (1 - (x - c).abs())
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            pixel = r.clamp(0, height - 1).long() * width + c.clamp(0, width - 1).long()
            flat = pixel.reshape(batch, offset_groups, 1, -1).expand(-1, -1, planes.size(2), -1)
            share = (share * inside).reshape(batch, offset_groups, 1, -1)
            samples = samples + planes.gather(-1, flat) * share
    if use_mask:
        samples = samples * mask.reshape(batch, offset_groups, 1, -1)
    columns = samples.reshape(batch, groups, channels // groups * taps, out_h * out_w)
    kernels = weight.reshape(groups, weight.size(0) // groups, -1)
    out = torch.matmul(kernels, columns).reshape(batch, weight.size(0), out_h, out_w)
    return out + bias.reshape(1, -1, 1, 1)


def deform_conv2d_backward(
    grad: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor,
    bias: torch.Tensor,
    *numbers: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of `deform_conv2d` with respect to its five tensors, zeros for an unused mask."""
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in (input, weight, offset, mask, bias)]
        out = deform_conv2d(leaves[0], leaves[1], leaves[2], leaves[3], leaves[4], *numbers)
        gradients = torch.autograd.grad(out, leaves, grad, allow_unused=True)
    first, second, third, fourth, fifth = (
        torch.zeros_like(t) if g is None else g for t, g in zip(leaves, gradients, strict=True)
    )
    return first, second, third, fourth, fifth


def _box_iou(box: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Return the intersection over union of a box with each box of a list."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    low, high = torch.maximum(box[:2], boxes[:, :2]), torch.minimum(box[2:], boxes[:, 2:])
    common = (high - low).clamp(min=0).prod(-1)
    return common / ((box[2] - box[0]) * (box[3] - box[1]) + areas - common)


def _nms_indices_above_score(
    boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float, score_threshold: float
) -> torch.Tensor:
    indices = nms_indices(boxes, scores, iou_threshold)
    return indices[scores[indices] > score_threshold]


def _padded_nms_results(
    boxes: torch.Tensor, scores: torch.Tensor, indices: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    missing = boxes.size(0) - indices.numel()
    count = torch.tensor([indices.numel()], dtype=torch.int64, device=boxes.device)
    padded = torch.cat((indices, indices.new_zeros(missing)))
    return padded, count, torch.cat((scores[indices], scores.new_zeros(missing)))


def _padded_nms_shapes(boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return boxes.new_empty(boxes.size(0), dtype=torch.int64), boxes.new_empty(1, dtype=torch.int64)


def _align_regions(
    input: torch.Tensor, rois: torch.Tensor, scale: float, size: tuple[int, int], ratio: int, aligned: bool
) -> torch.Tensor:
    total = torch.zeros((), dtype=input.dtype, device=input.device)
    last = input.movedim(1, -1)
    shape = input.size(-2), input.size(-1)
    for pixels, share in _sampled_pixels(rois, scale, shape, size, ratio, aligned, input.dtype):
        total = total + (last[pixels] * share).sum((2, 4))
    return total.movedim(-1, 1)


def _sampled_pixels(
    rois: torch.Tensor,
    scale: float,
    shape: tuple[int, int],
    size: tuple[int, int],
    ratio: int,
    aligned: bool,
    dtype: torch.dtype,
) -> Iterator[tuple[tuple[torch.Tensor, ...], torch.Tensor]]:
    """Yield four pairs (pixels, weights), for the four pixels around each sample. A pair covers all samples.

    Pixels are (image, row, column) indices that broadcast to [regions, height, samples, width, samples].
    Weights have an additional dimension for channels.
    """
    half = 0.5 if aligned else 0.0
    image = rois[:, 0].long().reshape(-1, 1, 1, 1, 1)
    corners = rois[:, 1:].to(dtype) * scale - half
    width, height = corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1]
    if not aligned:
        width, height = width.clamp(min=1.0), height.clamp(min=1.0)
    rows, row_weights = _sample_coordinates_and_weights(corners[:, 1], height, size[0], ratio, shape[0])
    columns, column_weights = _sample_coordinates_and_weights(corners[:, 0], width, size[1], ratio, shape[1])
    for y, of_y in _interpolation_pixels_and_weights(rows, row_weights, shape[0]):
        for x, of_x in _interpolation_pixels_and_weights(columns, column_weights, shape[1]):
            share = of_y.reshape(*y.shape, 1, 1, 1) * of_x.reshape(x.size(0), 1, 1, *x.shape[1:], 1)
            yield (image, y.reshape(*y.shape, 1, 1), x.reshape(x.size(0), 1, 1, *x.shape[1:])), share


def _prepend_image_index(rois: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    return torch.cat((image.reshape(-1, 1).to(rois.dtype), rois), 1)


def _sample_coordinates_and_weights(
    start: torch.Tensor, length: torch.Tensor, cells: int, ratio: int, pixels: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the coordinates and weights of the samples along one side, each [regions, cells, samples].

    The weight of a sample is its share in the mean of its cell.
    """
    bin = length / cells
    if ratio > 0:
        count, most = torch.full_like(length, float(ratio)), ratio
    else:
        count = torch.ceil(bin)
        most = max(1, int(count.max())) if count.numel() else 1
    number = torch.arange(most, device=start.device, dtype=start.dtype)
    safe = count.clamp(min=1).reshape(-1, 1, 1)
    within = (number + 0.5) * bin.reshape(-1, 1, 1) / safe
    cell = torch.arange(cells, device=start.device, dtype=start.dtype).reshape(1, -1, 1)
    at = start.reshape(-1, 1, 1) + cell * bin.reshape(-1, 1, 1) + within
    weight = (number < count.reshape(-1, 1, 1)).to(start.dtype) / safe
    inside = (at >= -1) & (at <= pixels)  # a sample that is more than one pixel outside counts as zero
    return at, weight * inside


def _interpolation_pixels_and_weights(
    at: torch.Tensor, weight: torch.Tensor, pixels: int
) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Return two pairs (pixels, weights), for the two pixels next to each sample along one side."""
    at = at.clamp(0, pixels - 1)
    low = at.floor()
    part = at - low
    first = low.long()
    second = (first + 1).clamp(max=pixels - 1)
    return (first, weight * (1 - part)), (second, weight * part)
