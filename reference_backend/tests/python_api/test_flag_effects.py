"""Test flags whose effect a program can observe in its own process."""

from __future__ import annotations

import json

import pytest

STREAMS = """
import torch, habana_frameworks.torch.hpu as hpu
made = [hpu.Stream() if i % 2 else torch.Stream(device="hpu") for i in range(6)]
x = torch.ones(3, device="hpu")
for stream in made:
    with hpu.stream(stream):
        x += 1
    stream.synchronize()
print(*(stream.stream_id for stream in made))
print(x.tolist())
"""


@pytest.mark.parametrize(
    ("variables", "ids"),
    [
        ({}, "1 2 3 4 5 6"),
        ({"PT_HPU_FORCE_USE_DEFAULT_STREAM": "1"}, "0 0 0 0 0 0"),
        ({"PT_HPU_ENABLE_GENERIC_STREAM": "0"}, "1 2 3 4 1 2"),
        ({"PT_HPU_ENABLE_GENERIC_STREAM": "0", "HPU_REFERENCE_DEVICE_NAME": "GAUDI"}, "1 2 1 2 1 2"),
    ],
)
def test_flags_select_the_streams_of_a_program(output_of, variables, ids) -> None:
    lines = output_of(STREAMS, **variables).splitlines()
    assert lines == [ids, "[7.0, 7.0, 7.0]"]


GELU = """
import torch, habana_frameworks.torch
from torch.nn.functional import gelu
x = torch.linspace(-3, 3, 50)
for form in ("none", "tanh"):
    given = x.to("hpu").requires_grad_()
    found = gelu(given, approximate=form)
    found.sum().backward()
    host = x.clone().requires_grad_()
    gelu(host, approximate=form).sum().backward()
    right = (found.detach().cpu() - gelu(x, approximate=form)).abs().max() < 1e-6
    print(bool(right), bool((given.grad.cpu() - host.grad).abs().max() < 1e-6))
"""


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "True True True True"),
        ({"HPU_REFERENCE_PROFILE": "gaudi2"}, "False False True True"),
        ({"HPU_REFERENCE_PROFILE": "gaudi2", "PT_HPU_FORCE_TANH_FOR_GELU": "0"}, "True True True True"),
    ],
)
def test_flag_selects_the_tanh_form_of_gelu(output_of, variables, expected) -> None:
    assert output_of(GELU, **variables).split() == expected.split()


COPY = """
import torch, habana_frameworks.torch as ht
host, device = torch.ones(int({size})).pin_memory(), torch.zeros(int({size}), device="hpu")
torch.hpu.synchronize()
before = ht._C.engine_counters()["queued"]
device.copy_(host, non_blocking=True)
print(ht._C.engine_counters()["queued"] - before)
torch.hpu.synchronize()
before = ht._C.engine_counters()["queued"]
host.copy_(device, non_blocking=True)
print(ht._C.engine_counters()["queued"] - before)
torch.hpu.synchronize()
print(device.sum().item(), host.sum().item())
"""


@pytest.mark.nightly("each case starts a process", every=3)
@pytest.mark.parametrize(
    ("size", "variables", "queued"),
    [
        (1 << 19, {}, "1 1"),
        (1 << 10, {}, "0 0"),
        (1 << 19, {"PT_HPU_ENABLE_H2D_COPY_ASYNC_THREAD": "0"}, "0 1"),
        (1 << 19, {"PT_HPU_ENABLE_D2H_ASYNC_THREAD": "0"}, "1 0"),
        (1 << 19, {"PT_HPU_H2D_COPY_MIN_TENSOR_SIZE": str(1 << 22)}, "0 1"),
        (1 << 10, {"PT_HPU_H2D_COPY_MIN_TENSOR_SIZE": "64"}, "1 0"),
    ],
)
def test_flags_select_the_queued_copies(output_of, size, variables, queued) -> None:
    output_fields = output_of(COPY.format(size=size), **variables).split()
    assert output_fields == [*queued.split(), str(float(size)), str(float(size))]


CAPTURED = """
import threading, torch, habana_frameworks.torch.hpu as hpu
x = torch.ones(3, device="hpu")
y = x + 1
graph = hpu.HPUGraph()
with hpu.graph(graph):
    y = x + 1
    other = threading.Thread(target=lambda: x.add_(5))
    other.start()
    other.join()
graph.replay()
print(x.tolist(), y.tolist())
"""


@pytest.mark.parametrize(
    "variables", [{"PT_HPU_FORCE_USE_DEFAULT_STREAM": "1"}, {"PT_HPU_ENABLE_GENERIC_STREAM": "0"}]
)
def test_a_capture_uses_its_own_stream_under_stream_flags(output_of, variables) -> None:
    assert output_of(CAPTURED, **variables) == "[6.0, 6.0, 6.0] [7.0, 7.0, 7.0]"


REUSED = """
import torch, habana_frameworks.torch as ht
hpu = ht.hpu
stream, gate = hpu.Stream(), ht._C.Gate()
with hpu.stream(stream):
    kept = torch.empty(10 << 20, dtype=torch.uint8, device="hpu")
    gate.enqueue()
    del kept  # while the stream has work
gate.open()
stream.synchronize()
print(torch.empty(10 << 20, dtype=torch.uint8, device="hpu").numel() == 10 << 20)
"""


def test_freed_block_is_reused_without_coalescing(output_of) -> None:
    limit = {"HPU_REFERENCE_MEMORY_LIMIT": str(16 << 20)}
    assert output_of(REUSED, **limit, PT_ENABLE_MEMORY_DEFRAGMENTATION="0") == "True"


FRAGMENTS = """
import torch, habana_frameworks.torch
small = [torch.empty(4096, dtype=torch.uint8, device="hpu") for _ in range(4000)]
del small
torch.hpu.synchronize()
try:
    large = torch.empty(10 << 20, dtype=torch.uint8, device="hpu")
    print("fits")
except torch.OutOfMemoryError:
    print("does not fit")
"""


@pytest.mark.parametrize(("value", "expected"), [("1", "fits"), ("0", "does not fit")])
def test_free_memory_is_coalesced(output_of, value, expected) -> None:
    limit = {"HPU_REFERENCE_MEMORY_LIMIT": str(16 << 20)}
    assert output_of(FRAGMENTS, **limit, PT_ENABLE_MEMORY_DEFRAGMENTATION=value) == expected


CALLS = """
import torch, habana_frameworks.torch as ht
from habana_frameworks.torch.utils.debug import _get_jit_cache_size
ht._C.set_queue_all(0)
x = torch.ones(3, device="hpu")
for _ in range(3):
    x = x * 2 + 1
print(x.tolist(), _get_jit_cache_size() > 0)
"""


@pytest.mark.parametrize(("value", "expected_count"), [("1", "True"), ("0", "False")])
def test_flag_disables_the_cache_of_calls(output_of, value, expected_count) -> None:
    output_text = output_of(CALLS, PT_HPU_ENABLE_EAGER_JIT_CACHE=value)
    assert output_text == f"[15.0, 15.0, 15.0] {expected_count}"


COMPILED = """
import torch, habana_frameworks.torch
@torch.compile(backend="hpu_backend")
def f(x):
    return torch.relu(x * 2) + 1
print(f(torch.ones(3, device="hpu")).tolist())
"""


@pytest.mark.nightly("compiles in a new process")
def test_flag_writes_a_file_for_each_compiled_graph(output_of, tmp_path) -> None:
    assert output_of(COMPILED, PT_COMPILATION_STATS_PATH=str(tmp_path / "made")) == "[3.0, 3.0, 3.0]"
    (file,) = (tmp_path / "made").iterdir()
    graph_record = json.loads(file.read_text())
    assert graph_record["name"] == "graph_0_inference" and graph_record["seconds"] > 0
    assert not graph_record["training"] and not graph_record["dynamic"]
    assert {name: counts["graph_count"] for name, counts in graph_record["ops"].items()} == {
        "torch.ops.aten.mul.Tensor": 1,
        "torch.ops.aten.relu.default": 1,
        "torch.ops.aten.add.Tensor": 1,
    }
    assert graph_record["recipes"] == 1 and graph_record["calls"] == 0


def test_a_folder_that_cannot_be_written_is_a_warning(run_python, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    done = run_python(COMPILED, PT_COMPILATION_STATS_PATH=str(tmp_path / "file"))
    assert done.stdout.split("\n")[0] == "[3.0, 3.0, 3.0]"
    assert "Set PT_COMPILATION_STATS_PATH to a writable folder" in done.stderr


FROZEN = """
import torch, habana_frameworks.torch, torch._inductor.config
torch._inductor.config.freezing = True  # lets Dynamo keep parameters in the graph
net = torch.nn.Linear(3, 2).to("hpu").eval()
run = torch.compile(net, backend="hpu_backend", options={"use_graph_freezing": True})
with torch.no_grad():
    print(run(torch.ones(1, 3, device="hpu")).shape)
"""


@pytest.mark.nightly("compiles in a new process")
def test_constants_of_a_frozen_graph_are_counted(output_of, run_python) -> None:
    assert output_of(FROZEN, PT_HPU_CHECK_NUM_CONSTS="2") == "torch.Size([1, 2])"
    wrong = run_python(FROZEN, PT_HPU_CHECK_NUM_CONSTS="3")
    assert wrong.returncode != 0
    assert "PT_HPU_CHECK_NUM_CONSTS is 3, but the frozen graph has 2 constants" in wrong.stderr


def test_a_fatal_signal_prints_stacks(run_python) -> None:
    code = "import os, signal, habana_frameworks.torch\nos.kill(os.getpid(), signal.SIGABRT)"
    assert "line 2 in <module>" in run_python(code, PT_HPU_PRINT_BACKTRACE_ON_SIGNAL="1").stderr
    assert "line 2 in <module>" not in run_python(code).stderr


BACKWARD = """
import torch, habana_frameworks.torch
from torch._dynamo.utils import counters
@torch.compile(backend="hpu_backend")
def step(x, w):
    (x * w).sum().backward()
w = torch.full((3,), 2.0, device="hpu", requires_grad=True)
step(torch.ones(3, device="hpu"), w)
print(w.grad.tolist(), counters["compiled_autograd"]["captures"])
"""


@pytest.mark.nightly("each case compiles in a new process", every=2)
@pytest.mark.parametrize(("value", "captures"), [("0", 0), ("1", 1)])
def test_compiled_backward_passes(output_of, value, captures) -> None:
    output_text = output_of(BACKWARD, PT_HPU_ENABLE_COMPILED_AUTOGRAD=value, timeout=120)
    assert output_text == f"[1.0, 1.0, 1.0] {captures}"
