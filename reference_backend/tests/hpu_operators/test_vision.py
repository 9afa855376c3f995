"""Compare box suppression, RoI align and deformable convolution with loops over pixels in float64."""

from __future__ import annotations

import math

import habana_frameworks.torch  # noqa: F401
import numpy
import pytest
import torch
from habana_frameworks.torch.internal.operators import vision

from . import samples
from .reference import assert_close_to_reference
from .samples import normal, random_integers

hpu = torch.ops.hpu


def intersection_over_union(a: list[float], b: list[float]) -> float:
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    size = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return width * height / (size - width * height)


def test_box_suppression() -> None:
    boxes, scores = samples._boxes_and_scores()
    best = sorted(range(9), key=lambda box: -float(scores[box]))
    retained: list[int] = []
    for box in best:
        if all(
            intersection_over_union(boxes[box].tolist(), boxes[retained_box].tolist()) <= 0.2
            for retained_box in retained
        ):
            retained.append(box)
    suppressed, count, heights = hpu.habana_nms(boxes, scores, 0.2, -1.0)
    assert count.item() == len(retained) and suppressed.tolist() == retained + [0] * (9 - len(retained))
    assert_close_to_reference(heights[: len(retained)], scores.cpu()[retained])
    classes = random_integers(9, below=2)
    retained = []
    for box in best:
        rivals = [
            retained_box for retained_box in retained if int(classes[retained_box]) == int(classes[box])
        ]
        if all(
            intersection_over_union(boxes[box].tolist(), boxes[retained_box].tolist()) <= 0.2
            for retained_box in rivals
        ):
            retained.append(box)
    suppressed, count = hpu.batched_nms_eager(boxes, scores, classes, 0.2, 2)
    assert suppressed.tolist()[: count.item()] == retained


@pytest.mark.parametrize("classes", [1, 3, 40])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.9])
def test_box_suppression_within_classes(classes: int, threshold: float) -> None:
    corner = normal(40, 2).abs() * 15
    boxes, scores = torch.cat((corner, corner + 4 + normal(40, 2, seed=2).abs() * 9), 1), normal(40, seed=3)
    kinds = random_integers(40, below=classes)
    retained: list[int] = []
    for box in sorted(range(40), key=lambda box_index: -float(scores[box_index])):
        rivals = [retained_box for retained_box in retained if int(kinds[retained_box]) == int(kinds[box])]
        if all(
            intersection_over_union(boxes[box].tolist(), boxes[retained_box].tolist()) <= threshold
            for retained_box in rivals
        ):
            retained.append(box)
    assert 0 < len(retained) <= 40
    suppressed, count = hpu.batched_nms(boxes, scores, kinds, threshold, normal(1), normal(3), classes)
    assert count.item() == len(retained) and suppressed.tolist() == retained + [0] * (40 - len(retained))
    assert suppressed.device.type == count.device.type == "hpu"
    none, count = hpu.batched_nms(boxes[:0], scores[:0], kinds[:0], threshold, normal(1), normal(1), classes)
    assert none.tolist() == [] and count.tolist() == [0]


def bilinear_sample(plane: numpy.ndarray, y: float, x: float) -> float:
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
    top, left = int(y), int(x)
    down, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, h = y - top, x - left
    return (1 - v) * ((1 - h) * plane[top, left] + h * plane[top, right]) + v * (
        (1 - h) * plane[down, left] + h * plane[down, right]
    )


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("ratio", [2, -1])
def test_roi_align(aligned: bool, ratio: int) -> None:
    x = normal(2, 1, 8, 8)
    rois = torch.tensor([[1.0, 1, 5, 6], [-2, 2, 7.5, 9], [3, 3, 3.2, 3.1]], device="hpu")
    image = torch.tensor([0, 1, 0], dtype=torch.int32, device="hpu")
    output = hpu.roi_align_fwd(x, rois, image, 2, 3, 0, ratio, 0.5, aligned).cpu().double()
    for region, (x1, y1, x2, y2) in enumerate(rois.tolist()):
        half = 0.5 if aligned else 0.0
        x1, y1, x2, y2 = (value * 0.5 - half for value in (x1, y1, x2, y2))
        width, height = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, 1.0), max(y2 - y1, 1.0))
        plane = x[int(image[region]), 0].cpu().double().numpy()
        high, wide = height / 2, width / 3
        rows, columns = (ratio, ratio) if ratio > 0 else (math.ceil(high), math.ceil(wide))
        for i in range(2):
            for j in range(3):
                total = sum(
                    bilinear_sample(
                        plane,
                        y1 + i * high + (r + 0.5) * high / rows,
                        x1 + j * wide + (c + 0.5) * wide / columns,
                    )
                    for r in range(rows)
                    for c in range(columns)
                )
                assert abs(float(output[region, 0, i, j]) - total / max(rows * columns, 1)) < 1e-5


def add_bilinear_shares(plane: numpy.ndarray, y: float, x: float, value: float) -> None:
    """Add `value` to four pixels, with the weights that ``bilinear_sample`` gives these pixels."""
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return
    y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
    top, left = int(y), int(x)
    for row, of_row in ((top, 1 - (y - top)), (min(top + 1, height - 1), y - top)):
        for column, of_column in ((left, 1 - (x - left)), (min(left + 1, width - 1), x - left)):
            plane[row, column] += value * of_row * of_column


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("ratio", [2, -1])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_roi_align_gradients(scale: float, ratio: int, aligned: bool) -> None:
    corners = [[1.0, 1, 5, 6], [-2, 2, 7.5, 9], [3, 3, 3.2, 3.1], [0, 0, 30, 3]]
    images = [1, 0, 1, 1]
    grad, x = normal(4, 3, 2, 3, seed=5), normal(2, 3, 8, 7)
    expected, upstream_gradient = numpy.zeros((2, 3, 8, 7)), grad.cpu().double().numpy()
    half = 0.5 if aligned else 0.0
    for region, box in enumerate(corners):
        x1, y1, x2, y2 = (value * scale - half for value in box)
        width, height = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, 1.0), max(y2 - y1, 1.0))
        high, wide = height / 2, width / 3
        rows, columns = (ratio, ratio) if ratio > 0 else (math.ceil(high), math.ceil(wide))
        for channel, i, j, r, c in numpy.ndindex(3, 2, 3, rows, columns):
            add_bilinear_shares(
                expected[images[region], channel],
                y1 + i * high + (r + 0.5) * high / rows,
                x1 + j * wide + (c + 0.5) * wide / columns,
                upstream_gradient[region, channel, i, j] / (rows * columns),
            )
    rois = torch.tensor(corners, device="hpu")
    image = torch.tensor(images, dtype=torch.int32, device="hpu")
    gradient = hpu.roi_align_bwd(grad, rois, image, x, ratio, scale, aligned)
    assert_close_to_reference(gradient, expected)
    out = hpu.roi_align_fwd(x, rois, image, 2, 3, 0, ratio, scale, aligned)
    # The operator is linear, so finite differences of any size equal its derivative.
    step = normal(2, 3, 8, 7, seed=6)
    more = hpu.roi_align_fwd(x + step, rois, image, 2, 3, 0, ratio, scale, aligned)
    change = (upstream_gradient * (more - out).cpu().double().numpy()).sum()
    assert abs(change - (expected * step.cpu().double().numpy()).sum()) < 1e-4


@pytest.mark.parametrize("ratio", [2, 0])
def test_roi_align_and_box_suppression_in_one_graph(ratio: int) -> None:
    def program(x: torch.Tensor, boxes: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
        best, count, _ = hpu.habana_nms(boxes, scores, 0.5, 0.1)
        image = torch.zeros_like(best, dtype=torch.int32)
        return hpu.roi_align_fwd(x * 2, boxes[best], image, 2, 3, 0, ratio, 0.5, True), best, count

    torch._dynamo.reset()
    corner = normal(12, 2, seed=3).abs() * 4
    boxes = torch.cat((corner, corner + normal(12, 2, seed=4).abs() * 6 + 1), 1)
    results = []
    for call in (program, torch.compile(program, backend="hpu_backend", fullgraph=True)):
        x = normal(1, 3, 8, 8).requires_grad_()
        regions, best, count = call(x, boxes, normal(12, seed=5).sigmoid())
        regions.square().sum().backward()
        results.append([regions.detach(), best, count, x.grad])
    assert 0 < int(results[0][2]) < 12
    torch.testing.assert_close(results[1], results[0])


def test_deformable_convolution_and_its_gradients() -> None:
    x, w, bias = normal(2, 4, 6, 5), normal(6, 2, 3, 2, seed=2), normal(6, seed=3)
    offset, mask = normal(2, 2 * 2 * 6, 3, 4, seed=4), normal(2, 2 * 6, 3, 4, seed=5).sigmoid()
    numbers = (2, 1, 1, 0, 1, 1, 2, 2, True)
    output = vision.deform_conv2d(x, w, offset, mask, bias, *numbers)
    planes, weights = x.cpu().double().numpy(), w.cpu().double().numpy()

    def zero_padded_sample(plane: numpy.ndarray, y: float, c: float) -> float:
        top, left, total = math.floor(y), math.floor(c), 0.0
        for r in (top, top + 1):
            for k in (left, left + 1):
                if 0 <= r < plane.shape[0] and 0 <= k < plane.shape[1]:
                    total += (1 - abs(y - r)) * (1 - abs(c - k)) * float(plane[r, k])
        return total

    expected = numpy.zeros((2, 6, 3, 4))
    moves, shares = (
        offset.cpu().double().reshape(2, 2, 6, 2, 3, 4),
        mask.cpu().double().reshape(2, 2, 6, 3, 4),
    )
    for n, out, i, j in numpy.ndindex(expected.shape):
        group = out // 3
        for channel in range(2):
            c = 2 * group + channel
            for tap in range(6):
                dy, dx = moves[n, c // 2, tap, :, i, j].tolist()
                value = zero_padded_sample(planes[n, c], 2 * i - 1 + tap // 2 + dy, j + tap % 2 + dx)
                expected[n, out, i, j] += (
                    weights[out, channel, tap // 2, tap % 2] * value * float(shares[n, c // 2, tap, i, j])
                )
    assert_close_to_reference(output, expected + bias.cpu().double().numpy().reshape(6, 1, 1))
    host_inputs = [t.cpu().double().requires_grad_() for t in (x, w, offset, mask, bias)]
    assert torch.autograd.gradcheck(
        lambda *t: vision.deform_conv2d(*t, *numbers), host_inputs, fast_mode=True
    )
    grads = vision.deform_conv2d_backward(torch.ones_like(output), x, w, offset, mask, bias, *numbers)
    wanted = torch.autograd.grad(vision.deform_conv2d(*host_inputs, *numbers).sum(), host_inputs)
    for gradient, expected_gradient in zip(grads, wanted, strict=True):
        assert_close_to_reference(gradient, expected_gradient, 1e-4, 1e-4)
