"""Test the hardware limits of ``HPU_REFERENCE_PROFILE``: they apply in every execution path."""

from __future__ import annotations

import pytest

START = "import torch, habana_frameworks.torch as ht\n"
#: Execution paths of a function: the code that defines `run` for the path, and its environment variables.
WAYS = {
    "inline": ("", {}),
    # The function runs four times, because the engine defers a call only when it has cached the output
    # metadata.
    "queued": (
        """
def run(f, *inputs):
    for _ in range(4):
        out = f(*inputs)
    torch.hpu.synchronize()
    assert ht._C.executed_ops(), "nothing ran behind the host"
    return out
""",
        {"HPU_REFERENCE_QUEUE_ALL": "0"},
    ),
    "captured": (
        """
def run(f, *inputs):
    torch.hpu.synchronize()
    f(*inputs)
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        out = f(*inputs)
    for _ in range(3):
        graph.replay()
    return out
""",
        {"HPU_REFERENCE_FUSE_AFTER": "1"},
    ),
    "compiled": ("def run(f, *inputs): return torch.compile(f, backend='hpu_backend')(*inputs)\n", {}),
}
PROGRAM = (
    START
    + """
import math, torch.nn.functional as F
run = globals().get("run") or (lambda f, *inputs: f(*inputs))
third = torch.tensor([1.0], dtype=torch.float64).to("hpu")
print(run(lambda x: x / 3, third).item() == torch.tensor(1 / 3, dtype=torch.float32).item())
def in_place(x):
    y = x.clone()
    y.div_(3)
    return y[:1] + 0
print(run(in_place, third).item() == torch.tensor(1 / 3, dtype=torch.float32).item())
big = torch.tensor([2**31 - 1]).to("hpu")
print(run(lambda x: x + 1, big).item())
x = torch.linspace(-3, 3, 50)
print(torch.allclose(run(F.gelu, x.to("hpu")).cpu(), F.gelu(x, approximate="tanh"), atol=1e-6))
wide = torch.tensor([1000.0, -300.0, 3.0, math.nan, math.inf]).to("hpu")
print([str(v) for v in run(lambda v: v.to(torch.float8_e4m3fn), wide).float().tolist()])
"""
)


def program_output(way: str, profile: str, output_of, **options: str) -> list[str]:
    before, variables = WAYS[way]
    if profile:
        options["HPU_REFERENCE_PROFILE"] = profile
    return output_of(START + before + PROGRAM, **variables, **options).splitlines()


@pytest.mark.nightly("each case starts a process", every=3)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("profile", "largest"), [("gaudi2", "240.0"), ("gaudi3", "448.0")])
def test_limits_apply_in_every_execution_path(output_of, way: str, profile: str, largest: str) -> None:
    saturated = [largest, "-240.0" if profile == "gaudi2" else "-288.0", "3.0", "nan", largest]
    assert program_output(way, profile, output_of) == [
        "True",
        "True",
        str(-(2**31)),
        "True",
        str(saturated),
    ]


def test_no_limit_without_a_profile(output_of) -> None:
    lines = program_output("inline", "", output_of)
    assert lines[:4] == ["False", "False", str(2**31), "False"]


def test_int64_support_removes_the_int64_limit(output_of) -> None:
    assert program_output("inline", "gaudi2", output_of, PT_ENABLE_INT64_SUPPORT="1")[2] == str(2**31)
    code = """
x = torch.tensor([2**31 - 1]).to("hpu")
print((x + 1).item())
ht.bridge_config.set_pt_enable_int64_support(True)
print((x + 1).item())
"""
    output_text = output_of(START + code, HPU_REFERENCE_PROFILE="gaudi2")
    assert output_text.split() == [str(-(2**31)), str(2**31)]


COMPLEX = "Complex datatype is not supported on HPU device."
REFUSALS = {
    "torch.ones(2, dtype=torch.complex64, device='hpu')": COMPLEX,
    "torch.ones(2, dtype=torch.complex64).to('hpu')": COMPLEX,
    "(torch.ones(2, device='hpu') * 1j)": COMPLEX,
    "torch.view_as_complex(torch.ones(2, 2, device='hpu'))": COMPLEX,
    "torch.ones(4, device='hpu').view(torch.complex64)": COMPLEX,
    "torch.fft.rfft(torch.ones(4, device='hpu'))": COMPLEX,
    "torch.tensor([2**31]).to('hpu')": "the int64 value 2147483648 does not fit",
    "torch.tensor([-(2**31) - 1], device='hpu')": "the int64 value -2147483649 does not fit",
    "torch.tensor([1e39], dtype=torch.float64).to('hpu')": "the float64 value 1e+39 is beyond float32",
}


@pytest.mark.nightly("each case starts a process; all cases read one table", every=3)
@pytest.mark.parametrize("call", REFUSALS)
def test_unsupported_dtypes_and_values_raise(run_python, call: str) -> None:
    done = run_python(f"{START}print({call}.cpu())", HPU_REFERENCE_PROFILE="gaudi3")
    assert done.returncode == 1
    assert REFUSALS[call] in done.stderr
    assert run_python(f"{START}print({call}.cpu())").returncode == 0


def test_values_wrap_without_the_check(output_of) -> None:
    code = "print(torch.tensor([2**31]).to('hpu').item(), torch.tensor([1e39]).double().to('hpu').item())"
    output_text = output_of(
        START + code, HPU_REFERENCE_PROFILE="gaudi2", PT_HPU_ENABLE_VALID_DATA_RANGE_CHECK="0"
    )
    assert output_text.split() == [str(-(2**31)), "inf"]


def test_layouts_are_kept(output_of) -> None:
    code = """
x = torch.arange(24, dtype=torch.float64).reshape(4, 6).to("hpu")
y = x.t()[1:4, ::2]
y.div_(7)
print(torch.equal(y.cpu(), (torch.arange(24).reshape(4, 6).t()[1:4, ::2].double() / 7).float().double()))
print(torch.equal(x.cpu()[:, 0], torch.arange(24).reshape(4, 6)[:, 0].double()))
"""
    assert output_of(START + code, HPU_REFERENCE_PROFILE="gaudi2").split() == ["True", "True"]


def test_gelu_has_the_gradient_of_its_tanh_form(output_of) -> None:
    code = """
import torch.nn.functional as F
x = torch.linspace(-3, 3, 50)
a, b = x.to("hpu").requires_grad_(), x.clone().requires_grad_()
F.gelu(a).sum().backward()
F.gelu(b, approximate="tanh").sum().backward()
print(torch.allclose(a.grad.cpu(), b.grad, atol=1e-6))
"""
    assert output_of(START + code, HPU_REFERENCE_PROFILE="gaudi2") == "True"


def test_gelu_of_an_unknown_form_stays_an_error(run_python) -> None:
    code = "torch.nn.functional.gelu(torch.ones(2, device='hpu'), approximate='asdf')"
    done = run_python(START + code, HPU_REFERENCE_PROFILE="gaudi2")
    assert "approximate argument must be either none or tanh" in done.stderr


@pytest.mark.parametrize("dtype", ["int32", "float16", "float64", "float8_e5m2"])
def test_casts_to_fp8_saturate_from_every_dtype(output_of, dtype: str) -> None:
    code = f"""
x = torch.tensor([1024, -1024, 4]).to(torch.{dtype})
print(x.to("hpu").to(torch.float8_e4m3fn).float().tolist())
"""
    assert output_of(START + code, HPU_REFERENCE_PROFILE="gaudi2") == "[240.0, -240.0, 4.0]"


def test_operators_of_fp8_saturate_at_the_largest_number_of_the_profile(output_of) -> None:
    code = """
x = torch.tensor([1000.0, 300.0]).to("hpu")
one = torch.ones((), device="hpu")
print(torch.ops.hpu.cast_to_fp8_v2(x, one, False, False, torch.float8_e4m3fn)[0].float().tolist())
"""
    assert output_of(START + code, HPU_REFERENCE_PROFILE="gaudi2") == "[240.0, 240.0]"
    assert output_of(START + code, HPU_REFERENCE_PROFILE="gaudi3") == "[448.0, 288.0]"


def test_scales_of_fp8_layers_are_for_the_largest_number_of_the_profile(output_of) -> None:
    code = """
from habana_frameworks.torch.hpex.experimental import transformer_engine as te
module = te.Linear(8, 4)
for _ in range(2):
    with te.fp8_autocast(enabled=True):
        module(torch.full((2, 8), 2.0, device="hpu"))
print(module.fp8_meta["scaling_fwd"].scale[0].item())
"""
    assert output_of(START + code, HPU_REFERENCE_PROFILE="gaudi2") == "120.0"
    assert output_of(START + code, HPU_REFERENCE_PROFILE="gaudi3") == "224.0"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"HPU_REFERENCE_PROFILE": "gaudi9"}, "HPU_REFERENCE_PROFILE='gaudi9' is not supported"),
        ({"HPU_REFERENCE_PROFILE": "gaudi2", "HPU_REFERENCE_DEVICE_NAME": "GAUDI3"}, "contradicts"),
        (
            {"HPU_REFERENCE_PROFILE": "gaudi2", "HPU_REFERENCE_COMPILE": "fused"},
            "does not support hardware limits",
        ),
    ],
)
def test_a_wrong_profile_is_one_sentence(run_python, variables: dict[str, str], message: str) -> None:
    code = "torch.compile(lambda x: x + 1, backend='hpu_backend')(torch.ones(2, device='hpu'))"
    done = run_python(START + code, **variables)
    assert done.returncode == 1
    assert message in done.stderr


def test_the_profile_names_the_device(output_of) -> None:
    code = "print(torch.hpu.get_device_name())"
    assert output_of(START + code, HPU_REFERENCE_PROFILE="gaudi3") == "GAUDI3"
