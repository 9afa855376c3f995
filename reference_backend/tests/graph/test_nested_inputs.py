"""Test nested inputs and results of graphs: packing, copying, and cache keys."""

from __future__ import annotations

import collections
import dataclasses

import pytest
import torch
from habana_frameworks.torch.hpu.graphs import TensorPacker, copy_to, input_hash
from habana_frameworks.torch.hpu.graphs.pytree_keys import Uncacheable, input_key

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class ModelOutput:
    logits: torch.Tensor
    name: str


def test_packer_rebuilds_nested_values():
    value = {
        "list": [torch.tensor(1.0), 2],
        "point": Point(torch.tensor(3.0), None),
        "output": ModelOutput(torch.tensor(4.0), "n"),
        "ordered": collections.OrderedDict(a=torch.tensor(5.0)),
    }
    packer = TensorPacker()
    tensors, metadata = packer.pack(value)
    assert [tensor.item() for tensor in tensors] == [1, 3, 4, 5]
    rebuilt = packer.unpack([torch.tensor(float(number)) for number in (10, 30, 40, 50)])
    assert rebuilt["list"] == [torch.tensor(10.0), 2]
    assert isinstance(rebuilt["point"], Point)
    assert rebuilt["point"] == (torch.tensor(30.0), None)
    assert isinstance(rebuilt["output"], ModelOutput)
    assert (rebuilt["output"].logits.item(), rebuilt["output"].name) == (40, "n")
    assert isinstance(rebuilt["ordered"], collections.OrderedDict)
    assert rebuilt["ordered"]["a"].item() == 50
    assert value["ordered"]["a"].item() == 5
    assert value["output"].logits.item() == 4
    packer.pack([torch.ones(2)])
    assert packer.unpack(tensors, metadata)["list"] == [torch.tensor(1.0), 2]


def test_packer_rebuilds_return_types():
    packer = TensorPacker()
    assert len(packer.pack(torch.topk(torch.tensor([1.0, 3.0, 2.0]), 2))[0]) == 2
    rebuilt = packer.unpack([torch.tensor([5.0]), torch.tensor([6])])
    assert type(rebuilt) is torch.return_types.topk
    assert (rebuilt.values.item(), rebuilt.indices.item()) == (5, 6)


def test_packer_errors():
    packer = TensorPacker(is_out_pack=True)
    with pytest.raises(RuntimeError, match="Call pack first"):
        packer.unpack([])
    packer.pack([torch.ones(1)])
    with pytest.raises(ValueError, match="2 tensors do not fit a structure of 1"):
        packer.unpack([torch.ones(1)] * 2)


def test_packer_prints_if_verbose(capsys):
    TensorPacker(verbose=True).pack({"a": torch.ones(2, 3)})
    assert "1 tensors in {'a': 'torch.float32[2, 3]'}" in capsys.readouterr().out


def test_copy_to():
    target = {"a": torch.zeros(2), "b": [torch.zeros(1), 7]}
    copy_to(target, {"a": torch.ones(2), "b": [torch.full((1,), 3.0), 8]})
    assert (target["a"].tolist(), target["b"][0].tolist(), target["b"][1]) == ([1, 1], [3], 7)
    with pytest.raises(ValueError, match="1 tensors cannot be copied to 2"):
        copy_to(target, [torch.ones(1)])


def _make_doubling_callable(make):
    a = torch.zeros(4, 4, device="hpu")
    return make(a), make(torch.ones(4, 4, device="hpu"))


SAME = {
    "values": lambda a: a,
    "float": lambda a: [a, float("nan")],
    "cpu scalar": lambda a: [a, torch.tensor(3)],
    "string": lambda a: {"x": a, "mode": "fast"},
    "two views": lambda a: [a[0], a[1]],
}


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_values_of_device_tensors_do_not_matter(make):
    first, second = _make_doubling_callable(make)
    assert input_key(first) == input_key(second)
    assert input_hash(first) == input_hash(second)


A = torch.zeros(4, 4)

DIFFERENT = {
    "shape": lambda a: (a, a[:2]),
    "strides": lambda a: (a, a.t()),
    "dtype": lambda a: (a, a.int()),
    "requires grad": lambda a: (a, a.clone().requires_grad_()),
    "aliasing": lambda a: ([a, a], [a, a.clone()]),
    "distance of aliases": lambda a: ([a[0], a[1]], [a[0], a[2]]),
    "place of aliases": lambda a: ([a[0], a[1]], [a[1], a[2]]),
    "bool and int": lambda a: ([a, 1], [a, True]),
    "int and float": lambda a: ([a, 1], [a, 1.0]),
    "sign of zero": lambda a: ([a, 0.0], [a, -0.0]),
    "value on the cpu": lambda a: ([a, torch.tensor(1)], [a, torch.tensor(2)]),
    "nesting": lambda a: ([a, [a]], [[a], a]),
    "list and tuple": lambda a: ([a], (a,)),
    "name": lambda a: ({"x": a}, {"y": a}),
    "conjugate": lambda a: (a.to(torch.complex64), a.to(torch.complex64).conj()),
    "none": lambda a: ([a, None], [a, 0]),
}


@pytest.mark.parametrize("make", DIFFERENT.values(), ids=DIFFERENT)
def test_key_depends_on_everything_that_a_graph_depends_on(make):
    first, second = make(A.to("hpu"))
    assert input_key(first) != input_key(second)


def test_key_depends_on_modes():
    a = torch.ones(1, device="hpu")
    keys = [input_key(a)]
    with torch.inference_mode():
        keys.append(input_key(a))
    with torch.autocast("hpu"):
        keys.append(input_key(a))
    with torch.autocast("hpu", dtype=torch.float16):
        keys.append(input_key(a))
    assert len(set(keys)) == 4


def test_uncacheable_inputs_raise():
    with pytest.raises(Uncacheable, match=r"shape \(2,\) on cpu"):
        input_key([torch.ones(2)])
    with pytest.raises(Uncacheable, match="a set, which may contain tensors"):
        input_key([{1, 2}])
    with pytest.raises(Uncacheable, match="a object, which may contain tensors"):
        input_key(object())
    with pytest.raises(Uncacheable, match="sparse_coo"):
        input_key(torch.eye(2).to_sparse().to("hpu"))
