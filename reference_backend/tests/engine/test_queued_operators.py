"""Test that operators of torch's ``op_db`` return the same bits when they are queued as when run inline."""

from __future__ import annotations

import habana_frameworks.torch as ht
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

C, hpu = ht._C, ht.hpu

NAMES = [
    "add",
    "mul",
    "sub",
    "div",
    "abs",
    "exp",
    "sigmoid",
    "clamp",
    "where",
    "pow",
    "fmod",
    "maximum",
    "addcmul",
    "lerp",
    "masked_fill",
    "eq",
    "logical_and",
    "bitwise_and",
    "sum",
    "mean",
    "amax",
    "std",
    "argmax",
    "cumsum",
    "prod",
    "norm",
    "var_mean",
    "logsumexp",
    "nonzero",
    "any",
    "matmul",
    "mm",
    "bmm",
    "addmm",
    "baddbmm",
    "einsum",
    "nn.functional.linear",
    "nn.functional.conv2d",
    "nn.functional.layer_norm",
    "nn.functional.batch_norm",
    "nn.functional.softmax",
    "softmax",
    "nn.functional.max_pool2d",
    "nn.functional.avg_pool2d",
    "nn.functional.embedding",
    "nn.functional.cross_entropy",
    "nn.functional.gelu",
    "nn.functional.interpolate",
    "nn.functional.scaled_dot_product_attention",
    "nn.functional.pad",
    "nn.functional.embedding_bag",
    "cat",
    "stack",
    "split",
    "chunk",
    "unbind",
    "transpose",
    "permute",
    "view",
    "reshape",
    "expand",
    "squeeze",
    "unsqueeze",
    "narrow",
    "diagonal",
    "select",
    "index_select",
    "gather",
    "scatter",
    "scatter_add",
    "index_put",
    "index_add",
    "index_fill",
    "masked_select",
    "take_along_dim",
    "sort",
    "topk",
    "kthvalue",
    "unique",
    "flip",
    "roll",
    "tril",
    "triu",
    "clone",
    "contiguous",
    "to",
    "fill",
    "zero_",
    "real",
    "conj",
    "view_as_real",
    "linalg.cholesky",
    "linalg.qr",
    "linalg.svd",
    "linalg.inv",
    "fft.fft",
    "fft.irfft",
    "cholesky",
    "tensor_split",
    "bincount",
    "rand_like",
    "bernoulli",
    "nn.functional.dropout",
    "normal",
    "uniform",
]
OPERATORS = [info for info in op_db if info.name in NAMES and not info.variant_test_name]
SAMPLES = 6


def _move_sample(device, value):
    """Copy a sample to the device. Tensors that share a storage also share a storage on the device."""
    copied_bases = {}

    def move(tensor):
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided:
            return tensor
        key = tensor.untyped_storage().data_ptr()
        if key not in copied_bases:
            count = tensor.untyped_storage().nbytes() // tensor.element_size()
            base = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage(), 0, (count,), (1,))
            copied_bases[key] = (tensor.dtype, base.to(device))
        dtype, base = copied_bases[key]
        if dtype != tensor.dtype or tensor.is_conj() or tensor.is_neg():
            return tensor.to(device)
        return base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    return pytree.tree_map(move, value)


def _sample_inputs(info, dtype):
    torch.manual_seed(3)
    samples = info.sample_inputs("cpu", dtype, requires_grad=False)
    return [sample for _, sample in zip(range(SAMPLES), samples, strict=False)]


def _observable_properties(value):
    """Return the properties of a result that a caller can observe."""
    leaves, spec = pytree.tree_flatten(value)
    result = [str(spec)]
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            metadata = (
                leaf.shape,
                leaf.stride(),
                leaf.storage_offset(),
                leaf.dtype,
                leaf.is_conj(),
                leaf.is_neg(),
            )
            flat = leaf.cpu().resolve_conj().resolve_neg().contiguous().flatten()
            result += [metadata, flat.view(torch.uint8).tolist() if flat.numel() else []]
        else:
            result.append(leaf)
    return result


def _observe_call(function, sample):
    torch.manual_seed(11)
    arguments = _move_sample("hpu", (sample.input, sample.args, sample.kwargs))
    try:
        result = function(arguments[0], *arguments[1], **arguments[2])
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
        return type(error)
    hpu.synchronize()  # the call may be a deferred copy to the CPU
    shares = [
        leaf.untyped_storage().data_ptr() == arguments[0].untyped_storage().data_ptr()
        for leaf in pytree.tree_leaves(result)
        if isinstance(leaf, torch.Tensor) and isinstance(arguments[0], torch.Tensor)
    ]
    return _observable_properties((result, arguments)), shares


def _out_variant(info):
    def call_with_out(*arguments, **named):
        expected = info.op(*arguments, **named)
        out = pytree.tree_map(lambda tensor: torch.full_like(tensor, 1), expected)
        info.op(*arguments, **named, out=out)
        return out

    return call_with_out


def _call_forms(info):
    yield "plain", info.op
    if info.inplace_variant is not None:
        yield "in place", info.inplace_variant
    if info.supports_out:
        yield "out=", _out_variant(info)


@pytest.mark.nightly("nox -s conformance runs each operator through the queue", every=3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("info", OPERATORS, ids=lambda info: info.name)
def test_queued_calls_match_inline_calls(info):
    dtype = torch.float32 if torch.float32 in info.supported_dtypes("cpu") else torch.int64
    checked = 0
    for seed, sample in enumerate(_sample_inputs(info, dtype)):
        for kind, function in _call_forms(info):
            C.set_queue_all(-1)
            expected = _observe_call(function, sample)
            C.set_queue_all(20, seed)
            for turn in range(2):
                actual = _observe_call(function, sample)
                assert actual == expected, (kind, turn, sample)
            checked += 1
    C.set_queue_all(-1)
    hpu.synchronize()
    assert checked


@pytest.mark.parametrize(
    "name", ["masked_select", "nonzero", "unique", "bincount", "index_put", "embedding_bag"]
)
def test_sizes_that_depend_on_data(name):
    """The inputs of successive calls have equal metadata and different data.

    The engine must not use the result sizes of an earlier call.
    """
    C.set_queue_all(20, 1)
    for seed in range(6):
        generator = torch.Generator().manual_seed(seed)
        data = torch.randint(0, 4, (30,), generator=generator)
        mask = torch.rand(30, generator=generator) < 0.1 * (seed + 2)
        results = []
        for device in ("cpu", "hpu"):
            x, m = data.to(device), mask.to(device)
            if name == "masked_select":
                results.append([x.masked_select(m) + 1, x[m]])
            elif name == "nonzero":
                results.append([m.nonzero() + 1, torch.argwhere(m)])
            elif name == "unique":
                results.append([*torch.unique(x[: 5 + 4 * seed], return_counts=True)])
            elif name == "bincount":
                results.append([torch.bincount(x * seed)])
            elif name == "index_put":
                y = x.clone()
                y[m] = -1
                y[m] += 5
                results.append([y, y[~m]])
            else:
                weight = torch.arange(40.0).reshape(10, 4).to(device)
                starts = torch.tensor([0, 3 + seed, 10], device=device)
                results.append([torch.nn.functional.embedding_bag(x, weight, starts, mode="sum")])
        for expected, actual in zip(*results, strict=True):
            assert torch.equal(actual.cpu(), expected), seed


def test_operators_are_queued():
    """If operators were not queued, the other tests of this file would compare inline calls only."""
    x = torch.rand(4, 4, device="hpu")
    C.set_queue_all(0)
    before = C.engine_counters()
    for _ in range(3):
        torch.softmax(x @ x + 1, -1).t().clone().mul_(2)
    after = C.engine_counters()
    assert after["queued"] - before["queued"] >= 10
    assert len(OPERATORS) >= 100
