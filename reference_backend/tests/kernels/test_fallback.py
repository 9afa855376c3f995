"""Test the CPU fallback of operators without a device kernel: counts, logs, and the fallback policy."""

import pytest
import torch
from habana_frameworks.torch import _C


@pytest.fixture(scope="module")
def library():
    lib = torch.library.Library("hpu_fallback_test", "DEF")
    lib.define("twice(Tensor x) -> Tensor")
    lib.define("fill_seven_(Tensor(a!) x) -> Tensor(a!)")
    lib.define("nowhere(Tensor x) -> Tensor")
    lib.impl("twice", lambda x: x * 2, "CPU")
    lib.impl("fill_seven_", lambda x: x.fill_(7), "CPU")
    yield torch.ops.hpu_fallback_test
    lib._destroy()


@pytest.fixture(autouse=True)
def counts():
    _C.reset_fallback_counts()
    yield
    _C.reset_fallback_counts()
    _C.set_fallback_policy("")


def test_device_operators_are_not_fallbacks():
    (torch.ones(3, device="hpu") @ torch.ones(3, device="hpu")).item()
    assert _C.fallback_counts() == {}


def test_user_operator_falls_back_and_is_counted(library):
    result = library.twice(torch.ones(3, device="hpu"))
    assert result.device.type == "hpu" and result.tolist() == [2.0, 2.0, 2.0]
    assert _C.fallback_counts() == {"hpu_fallback_test::twice": 1}


def test_in_place_fallback_writes_back(library):
    a = torch.ones(2, 2, device="hpu")
    assert library.fill_seven_(a.t()) is not None and a.tolist() == [[7.0, 7.0], [7.0, 7.0]]


def test_policy_forbids_all_or_all_but_a_list(library):
    a = torch.ones(1, device="hpu")
    _C.set_fallback_policy("none")
    with pytest.raises(RuntimeError, match="hpu_fallback_test::twice is not yet supported on HPU"):
        library.twice(a)
    assert _C.fallback_counts() == {}
    _C.set_fallback_policy("hpu_fallback_test::twice")
    library.twice(a)
    with pytest.raises(RuntimeError, match="not yet supported"):
        library.fill_seven_(a)


def test_operator_without_any_kernel(library):
    with pytest.raises(NotImplementedError, match="hpu_fallback_test::nowhere"):
        library.nowhere(torch.ones(1, device="hpu"))


@pytest.mark.parametrize("variable", ["PT_HPU_PLACE_ON_CPU", "HPU_REFERENCE_FALLBACK_OPS"])
def test_declared_fallback_logs_as_documented(python, variable):
    script = (
        "a = torch.ones(2, 2, device='hpu')\nb = a.half().tril(); a.lgamma_()\n"
        "print(b.tolist(), a.tolist(), habana_frameworks.torch._C.fallback_counts())"
    )
    done = python(script, **{variable: "tril, lgamma_"}, PT_HPU_LOG_MOD_MASK="0x80")
    assert [line.partition("] CPU ")[2] for line in done.stderr.splitlines() if "CPU fallback" in line] == [
        "fallback tril : self=HPUHalfType",
        "fallback lgamma_ : self=HPUFloatType",
    ]
    assert (
        done.stdout.strip()
        == "[[1.0, 0.0], [1.0, 1.0]] [[0.0, 0.0], [0.0, 0.0]] {'aten::lgamma_': 1, 'aten::tril': 1}"
    )
    assert python(script, **{variable: "tril,lgamma_"}).stderr == ""


def test_policy_variable(python):
    done = python(
        "torch.ones(2, 2, device='hpu').tril()", HPU_REFERENCE_FALLBACK_OPS="tril", PT_HPU_PLACE_ON_CPU="none"
    )
    assert "RuntimeError: aten::tril is not yet supported on HPU." in done.stderr


def test_a_warning_names_listed_operators_that_cannot_be_placed(python):
    script = "print(habana_frameworks.torch._C.fallback_counts())"
    done = python(script, PT_HPU_PLACE_ON_CPU="trill,tril,other::operator")
    assert done.stdout.strip() == "{}"
    assert [line for line in done.stderr.splitlines() if "cannot place it" in line and "aten::trill" in line]
    assert "aten::tril," not in done.stderr and "other::operator" not in done.stderr
