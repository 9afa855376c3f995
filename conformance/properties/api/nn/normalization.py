"""Check normalization: statistics and their update, affine parameters, memory formats, and errors."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from conformance.behaviours.behaviour import behaviour
from conformance.behaviours.lab import Lab
from conformance.properties.api._exact_modules import gradients_by_name, with_whole_number_state


@behaviour("nn", level="core", must_detect=("value",), page="generated/torch.nn.BatchNorm1d.html")
def batch_norm_statistics(lab: Lab) -> None:
    """In train mode only, batch norm updates its running statistics and counts the batches. The update uses
    the momentum or, with ``momentum=None``, the average over all batches.
    """
    x = lab.put([[0.0, 4.0], [2.0, 8.0]], dtype=lab.dtype)
    norm = nn.BatchNorm1d(2, eps=1e-30, momentum=0.5, device=lab.device, dtype=lab.dtype)
    lab.expect("normalized", norm(x), [[-1.0, -1.0], [1.0, 1.0]], roundings=8)
    lab.expect("mean", norm.running_mean, [0.5, 3.0])
    lab.expect("variance, unbiased", norm.running_var, [1.5, 4.5])
    norm(x)
    lab.expect("mean of two", norm.running_mean, [0.75, 4.5])
    with lab.parity("num_batches_tracked is undocumented"):
        lab.expect("count", norm.num_batches_tracked, 2)
    norm.eval()
    lab.close("in eval mode", norm(x), roundings=16)
    lab.expect("they rest", norm.running_mean, [0.75, 4.5])
    norm.reset_running_stats()
    lab.expect("reset", torch.stack((norm.running_mean, norm.running_var)), [[0.0, 0.0], [1.0, 1.0]])  # type: ignore[arg-type]
    average = nn.BatchNorm1d(2, momentum=None, device=lab.device, dtype=lab.dtype)
    for factor in (1, 3):
        average(x * factor)
    lab.expect("the average of all batches", average.running_mean, [2.0, 12.0], roundings=8)
    lab.close("of variances", average.running_var, roundings=8)
    free = nn.BatchNorm1d(2, track_running_stats=False, eps=1e-30, device=lab.device, dtype=lab.dtype).eval()
    lab.expect(
        "eval mode without statistics uses the batch's statistics",
        free(x),
        [[-1.0, -1.0], [1.0, 1.0]],
        roundings=8,
    )
    tracked = nn.BatchNorm1d(2, device=lab.device, dtype=lab.dtype)
    tracked.track_running_stats = False
    tracked(x)
    with lab.parity("No page says what a later change of track_running_stats does"):
        lab.same(
            "statistics after track_running_stats was set to False",
            (tracked.running_mean, tracked.num_batches_tracked),
        )
    mean, variance = lab.put([0.0, 0.0], dtype=lab.dtype), lab.put([1.0, 1.0], dtype=lab.dtype)
    F.batch_norm(x, mean, variance, training=True, momentum=1.0)
    lab.expect(
        "statistics of the batch, with a momentum of one",
        torch.stack((mean, variance)),
        [[1.0, 6.0], [2.0, 8.0]],
        roundings=4,
    )
    F.batch_norm(x, mean, variance, training=True, momentum=0.0)
    lab.expect("unchanged statistics, with a momentum of zero", mean, [1.0, 6.0])


@behaviour(
    "nn",
    level="training",
    capabilities=("autograd",),
    must_detect=("value",),
    page="generated/torch.nn.BatchNorm2d.html",
)
def batch_norm_gradients(lab: Lab) -> None:
    """Gradients of batch norm are correct in train and eval mode, with and without affine parameters, in one
    to three dimensions.
    """
    for dims, make in ((1, nn.BatchNorm1d), (2, nn.BatchNorm2d), (3, nn.BatchNorm3d)):
        for affine in (True, False) if dims == 2 else (True,):
            for training in (True, False) if dims == 2 else (True,):
                norm = with_whole_number_state(lab, make(2, affine=affine), low=1).train(training)
                x = lab.floats(3, 2, *(2,) * dims, requires_grad=True)
                y = norm(x)
                output_gradient = lab.floats(*y.shape)
                y.backward(output_gradient)
                label = f"{dims} dimensions, affine={affine}, training={training}"
                lab.close(f"result, {label}", y, roundings=64)
                lab.close(f"gradients, {label}", (x.grad, gradients_by_name(norm)), roundings=512)
    x = lab.floats(2, 3, 2, 2, requires_grad=True)
    norm = with_whole_number_state(lab, nn.BatchNorm2d(3), low=1)
    first = norm(x)
    strided = norm(x.detach().clone(memory_format=torch.channels_last))
    lab.close("channels last", (strided, first), roundings=64)
    lab.close("with gaps", norm(lab.floats(2, 6, 2, 4)[:, ::2, :, ::2]), roundings=64)
    lab.close("one row of many", norm(lab.floats(1, 3, 5, 5)), roundings=64)


@behaviour(
    "nn",
    capabilities=("autograd",),
    dtypes=("bfloat16", "float16"),
    must_detect=("dtype",),
    page="generated/torch.nn.BatchNorm2d.html",
    basis="parity",
    ground="No page says that input and parameters of batch norm may have different dtypes",
)
def mixed_batch_norm(lab: Lab) -> None:
    """Batch norm of a low-precision input with float32 parameters and statistics returns a result of the
    input's dtype.
    """
    for training in (True, False):
        norm: Any = nn.BatchNorm2d(3, device=lab.device).train(training)
        x: Any = lab.floats(4, 3, 2, 2, requires_grad=True)
        y = norm(x)
        lab.close(f"result, training={training}", y, roundings=8, dtype=lab.dtype)
        y.sum().backward()
        lab.same(
            f"dtypes, training={training}",
            (y.dtype, x.grad.dtype, norm.weight.grad.dtype, norm.running_mean.dtype),
        )
        lab.close(f"statistics, training={training}", norm.running_mean, roundings=8, dtype=lab.dtype)
    layer = nn.LayerNorm(8).to(lab.device)
    x = lab.floats(4, 8)
    with torch.no_grad(), lab.documented():
        lab.close("layer norm in reduced precision", layer.to(lab.dtype)(x), roundings=8)


@behaviour(
    "nn",
    must_detect=("error", "message"),
    page="generated/torch.nn.BatchNorm1d.html",
    basis="parity",
    ground="No page says that single values or other sizes raise an error",
)
def refusals_of_normalization(lab: Lab) -> None:
    """Normalization raises an error for a single value per channel in train mode, and for statistics and
    parameters of wrong sizes. Wrong numbers of channels or groups raise an error too.
    """
    lab.raises(
        "batch norm of one value per channel",
        lambda: with_whole_number_state(lab, nn.BatchNorm1d(3))(lab.floats(1, 3)),
        ValueError,
        match="(?i)more than 1",
    )
    lab.raises(
        "one value by function",
        lambda: F.batch_norm(lab.floats(1, 3, 1), None, None, training=True),
        ValueError,
        match="(?i)more than 1",
    )
    x = lab.floats(3, 4)
    right_size, wrong_size = torch.ones(4, device=lab.device), torch.ones(5, device=lab.device)
    lab.raises(
        "a running mean of a wrong size",
        lambda: F.batch_norm(x, wrong_size, right_size),
        match="running_mean",
    )
    lab.raises(
        "a running variance of a wrong size",
        lambda: F.batch_norm(x, right_size, wrong_size),
        match="running_var",
    )
    lab.raises(
        "a weight of a wrong size",
        lambda: F.batch_norm(x, right_size, right_size, weight=wrong_size),
        match="weight",
    )
    lab.raises(
        "a bias of a wrong size",
        lambda: F.batch_norm(x, right_size, right_size, bias=wrong_size),
        match="bias",
    )
    for dims, make in ((4, nn.BatchNorm1d), (3, nn.BatchNorm2d), (4, nn.BatchNorm3d), (5, nn.InstanceNorm1d)):
        lab.raises(
            f"{make.__name__} of {dims} dimensions",
            lambda: with_whole_number_state(lab, make(2))(lab.floats(*(2,) * dims)),
            ValueError,
            match="(?i)expected",
        )
    for make in (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d):  # type: ignore[assignment]
        dims = int(make.__name__[-2])
        lab.raises(
            f"a single element per channel, {make.__name__}",
            lambda: with_whole_number_state(lab, make(2))(lab.floats(3, 2, *(1,) * dims)),
            ValueError,
            match="(?i)more than 1",
        )
        lab.raises(
            f"other channels of {make.__name__}",
            lambda: with_whole_number_state(lab, make(2, affine=True))(lab.floats(3, 5, *(2,) * dims)),
            ValueError,
            match="(?i)channel|num_features",
        )
        lab.warns(
            f"a wrong number of channels, {make.__name__} without parameters",
            lambda: with_whole_number_state(lab, make(2))(lab.floats(3, 5, *(2,) * dims)),
            match="(?i)num_features",
        )
    lab.raises(
        "group norm of one value per group",
        lambda: F.group_norm(lab.floats(1, 4), 4),
        ValueError,
        match="(?i)more than 1",
    )
    with lab.documented():
        lab.raises(
            "GroupNorm with groups that do not divide the channels",
            lambda: nn.GroupNorm(3, 4),
            ValueError,
            match="(?i)divisible",
        )
        lab.raises(
            "group_norm with groups that do not divide the channels",
            lambda: F.group_norm(lab.floats(2, 4, 3), 3),
        )
    lab.raises(
        "an input of another size than normalized_shape",
        lambda: with_whole_number_state(lab, nn.LayerNorm(5))(lab.floats(2, 4)),
        match="(?i)normalized_shape",
    )
    lab.raises(
        "no normalized shape", lambda: F.layer_norm(lab.floats(2, 4), ()), match="(?i)normalized_shape"
    )


@behaviour(
    "nn",
    capabilities=("autograd",),
    level="core",
    must_detect=("value",),
    page="generated/torch.nn.InstanceNorm1d.html",
)
def instance_norm(lab: Lab) -> None:
    """Instance norm normalizes each channel of each sample to mean zero and variance one. With
    ``track_running_stats``, it updates running statistics.
    """
    for dims, make in ((1, nn.InstanceNorm1d), (2, nn.InstanceNorm2d), (3, nn.InstanceNorm3d)):
        x: Any = lab.floats(3, 2, *(4,) * dims, low=1, high=5, requires_grad=True)
        norm = make(2, eps=0.0).to(lab.device)
        y = norm(x)
        flat = y.flatten(2)
        lab.holds(f"means of zero, {dims}", (flat.mean(2).abs() < 1e-5).all())
        lab.holds(f"variances of one, {dims}", ((flat.var(2, unbiased=False) - 1).abs() < 1e-4).all())
        lab.close(f"result, {dims}", y, roundings=128)
        y.backward(lab.floats(*y.shape))
        lab.holds(
            f"gradients of each channel add up to zero, {dims}", (x.grad.flatten(2).sum(2).abs() < 1e-4).all()
        )
        with_statistics = with_whole_number_state(lab, make(2, affine=True, track_running_stats=True), low=1)
        lab.close(f"affine, {dims}", with_statistics(x.detach()), roundings=128)
        lab.close(
            f"statistics, {dims}", (with_statistics.running_mean, with_statistics.running_var), roundings=64
        )
        lab.close(f"in eval mode, {dims}", with_statistics.eval()(x.detach()), roundings=128)
        lab.close(f"without a batch, {dims}", norm(x.detach()[0]), roundings=128)


@behaviour(
    "nn",
    capabilities=(
        "autograd",
        "double_backward",
    ),
    level="core",
    must_detect=("value",),
    page="generated/torch.nn.GroupNorm.html",
)
def layer_and_group_norm(lab: Lab) -> None:
    """Layer norm normalizes over the last dimensions. Group norm normalizes over groups of channels. Both
    accept empty and strided input.
    """
    x = lab.put([[0.0, 2.0, 4.0, 6.0], [1.0, 1.0, 3.0, 3.0]], dtype=lab.dtype, requires_grad=True)
    lab.expect("layer norm", F.layer_norm(x[1:], (4,), eps=0.0), [[-1.0, -1.0, 1.0, 1.0]], roundings=16)
    lab.expect(
        "with parameters",
        F.layer_norm(x[1:], (4,), lab.put([1.0, 2.0, 3.0, 4.0]), lab.put([1.0, 1.0, 1.0, 1.0]), eps=0.0),
        [[0.0, -1.0, 4.0, 5.0]],
        roundings=16,
    )
    lab.close("both dimensions", F.layer_norm(x, (2, 4)), roundings=64)
    lab.close("a large eps", F.layer_norm(x, (4,), eps=3.0), roundings=64)
    for bias in (True, False):
        norm: Any = with_whole_number_state(lab, nn.LayerNorm((3, 2), bias=bias), low=1)
        y = norm(lab.floats(4, 3, 2))
        lab.close(f"bias={bias}", y, roundings=64)
        y.sum().backward()
        lab.close(f"gradients, bias={bias}", gradients_by_name(norm), roundings=512)
    y = F.layer_norm(x, (4,), eps=1.0)
    (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    lab.close("with create_graph", first, roundings=512)
    first.square().sum().backward()
    lab.close("second gradient", x.grad, roundings=2048)
    wide = lab.put([[1.0, 3.0, 10.0, 10.0], [2.0, 6.0, 5.0, 7.0]], dtype=lab.dtype)
    groups = F.group_norm(wide.view(1, 4, 2), 2, eps=0.0)
    lab.close("group norm", groups, roundings=64)
    for count in (1, 2, 4):
        norm = with_whole_number_state(lab, nn.GroupNorm(count, 4), low=1)
        for shape in ((3, 4, 5), (3, 4, 2, 3), (2, 4, 2, 2, 2), (3, 4) if count < 4 else (3, 4, 2)):
            lab.close(f"{count} groups of {shape}", norm(lab.floats(*shape)), roundings=128)
        images = lab.floats(2, 4, 3, 3).contiguous(memory_format=torch.channels_last).requires_grad_()
        y = None
        with lab.parity("torch's composite kernel, which a device may run, refuses channels_last"):
            y = norm(images)
        gradients = lab.floats(2, 4, 3, 3)
        if y is not None:
            lab.close(f"{count} groups, channels last", y, roundings=128)
            y.backward(gradients)
            lab.close(f"{count} groups, gradients", (images.grad, gradients_by_name(norm)), roundings=1024)
    group_norm = with_whole_number_state(lab, nn.GroupNorm(2, 4))
    lab.same("group norm of an empty batch", group_norm(lab.integers(0, 4, 3)))
    lab.same("layer norm of an input without rows", F.layer_norm(lab.integers(2, 0, 4), (4,)))
    for make in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
        dims = int(make.__name__[-2])
        norm = with_whole_number_state(lab, make(4))
        with lab.parity("No page says that batch norm in train mode accepts an empty batch"):
            y = norm(lab.integers(0, 4, *(2,) * dims).requires_grad_())
            y.sum().backward()
            lab.same(f"{make.__name__} of no samples", (y, norm.weight.grad))
    lab.same("local response norm of an empty batch", F.local_response_norm(lab.integers(0, 4, 3), 2))
    lab.close(
        "local response norm",
        F.local_response_norm(lab.floats(2, 5, 3), 3, alpha=0.5, beta=0.5, k=2.0),
        roundings=64,
    )
    lab.expect(
        "normalize", F.normalize(lab.put([[3.0, 4.0], [0.0, 0.0]])), [[0.6, 0.8], [0.0, 0.0]], roundings=8
    )
    lab.expect("normalize by the sum", F.normalize(lab.put([[3.0, 1.0]]), p=1), [[0.75, 0.25]], roundings=8)
    lab.close("normalize along another", F.normalize(lab.floats(3, 2), dim=0, p=3), roundings=32)
