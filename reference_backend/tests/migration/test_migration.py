"""Test GPU migration: programs for `torch.cuda` run on hpu."""

from __future__ import annotations

from pathlib import Path

import pytest

DIGITS = (Path(__file__).parent / "digits.py").read_text()
LOADED = "import habana_frameworks.torch\n"
MIGRATED = "import habana_frameworks.torch.gpu_migration, torch\n"


def parse_losses(text: str) -> list[float]:
    return [float(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    "compiled",
    [
        "",
        pytest.param(
            "1", marks=pytest.mark.nightly("compiles; the compiler does not depend on the migration")
        ),
    ],
)
def test_a_program_for_cuda_runs_unedited(output_of, compiled: str) -> None:
    loss_values = parse_losses(output_of(LOADED + DIGITS, PT_HPU_GPU_MIGRATION="1", DIGITS_COMPILE=compiled))
    assert len(loss_values) == 10
    assert loss_values[-1] < loss_values[0] / 2


@pytest.mark.nightly("trains twice in new processes")
def test_variable_and_import_give_the_same_losses(output_of) -> None:
    switched = output_of(LOADED + DIGITS, PT_HPU_GPU_MIGRATION="1")
    imported = output_of(MIGRATED + DIGITS)
    assert parse_losses(switched) == pytest.approx(parse_losses(imported), rel=1e-3)


def test_cuda_is_unavailable_without_migration(output_of) -> None:
    assert output_of("import torch, habana_frameworks.torch; print(torch.cuda.is_available())") == "False"


CALLS = {
    "torch.zeros(2, device='cuda')": "hpu:0",
    "torch.zeros(2, device=torch.device('cuda', 0))": "hpu:0",
    "torch.tensor([1.0]).cuda()": "hpu:0",
    "torch.tensor([1.0]).cuda(0)": "hpu:0",
    "torch.tensor([1.0]).to(torch.device('cuda'))": "hpu:0",
    "torch.tensor([1.0]).to('cuda', torch.float16)": "hpu:0",
    "torch.ones(2).new_zeros(3, device='cuda')": "hpu:0",
    "torch.empty_like(torch.ones(2), device='cuda')": "hpu:0",
    "torch.randn(2, device='cuda', generator=torch.Generator(device='cuda').manual_seed(1))": "hpu:0",
    "torch.nn.Linear(2, 2, device='cuda').weight": "hpu:0",
    "torch.nn.Linear(2, 2).cuda().weight": "hpu:0",
    "torch.nn.Linear(2, 2, device='meta').to_empty(device='cuda').weight": "hpu:0",
    "torch.cuda.FloatTensor([1.0])": "hpu:0",
    "torch.fft.fftfreq(4, device='cuda')": "hpu:0",
    "torch.zeros(2, device='cpu')": "cpu",
    "torch.ones(2).to('cpu')": "cpu",
    "torch.ones(2).to(torch.float64)": "cpu",
}


def test_calls_with_a_cuda_device_return_hpu_tensors(output_of) -> None:
    code = MIGRATED + "".join(f"print(({call}).device)\n" for call in CALLS)
    assert output_of(code).splitlines() == list(CALLS.values())


DEVICES = (
    "torch.cuda.set_device(torch.device('cuda', 0))",
    "torch.cuda.synchronize('cuda:0')",
    "torch.cuda.Stream(device=torch.device('cuda')).synchronize()",
    "torch.cuda.default_stream(torch.device('cuda', 0)).synchronize()",
    "torch.cuda.manual_seed(1)",
    "torch.cuda.set_rng_state(torch.cuda.get_rng_state('cuda'), torch.device('cuda', 0))",
    "torch.cuda.memory_allocated(torch.device('cuda'))",
    "torch.cuda.mem_get_info('cuda:0')",
    "torch.cuda.get_device_name(torch.device('cuda', 0))",
    "torch.cuda.device(torch.device('cuda', 0)).__enter__()",
)


def test_torch_cuda_functions_accept_cuda_devices(output_of) -> None:
    assert output_of(MIGRATED + "\n".join(DEVICES) + "\nprint('done')") == "done"


def test_hpu_rejects_cuda_devices_without_migration(output_of) -> None:
    code = """
import torch, habana_frameworks.torch
try:
    torch.hpu.synchronize("cuda:0")
except ValueError as error:
    print(error)
"""
    assert "cuda:0" in output_of(code)


def test_statistics_of_memory_have_the_names_of_cuda(output_of) -> None:
    code = """
x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
found = torch.cuda.memory_stats(torch.device("cuda", 0))
print(found["active_bytes.all.peak"] >= 1 << 20, found["allocated_bytes.all.current"] >= 1 << 20)
print(found["reserved_bytes.all.peak"] <= torch.cuda.get_device_properties(0).total_memory)
"""
    assert output_of(MIGRATED + code).split() == ["True"] * 3


def test_distributed_checkpoint_restores_tensors(output_of, tmp_path: Path) -> None:
    code = f"""
import torch.distributed.checkpoint as checkpoint
state = {{"weight": torch.arange(600_000.0, device="cuda"), "of_host": torch.arange(3)}}
checkpoint.save(state, checkpoint_id={str(tmp_path / "saved")!r})
found = {{"weight": torch.zeros(600_000, device="cuda"), "of_host": torch.zeros(3, dtype=torch.int64)}}
checkpoint.load(found, checkpoint_id={str(tmp_path / "saved")!r})
print(*(torch.equal(found[name], state[name]) for name in state))
"""
    assert output_of(MIGRATED + code).splitlines()[-1] == "True True"


def test_generators_keep_their_class(output_of) -> None:
    code = (
        "g = torch.Generator('cuda'); print(g.device, isinstance(g, torch.Generator))\n"
        "print(isinstance(torch.default_generator, torch.Generator), isinstance(1, torch.Generator))\n"
    )
    assert output_of(MIGRATED + code).split() == ["hpu:0", "True", "True", "False"]


def test_file_saved_on_cuda_is_loaded_on_hpu(output_of) -> None:
    # A file that was saved on cuda contains the name of the device. This code writes such a file without a
    # GPU.
    code = """
import io, torch.serialization as s
tag = s.location_tag
s.location_tag = lambda storage: "cuda:0"
file = io.BytesIO()
torch.save({"x": torch.arange(3.0)}, file)
s.location_tag = tag
for where in (None, "cuda", {"cuda:0": "cuda:0"}, {"cuda:0": "cpu"}, "cpu"):
    file.seek(0)
    x = torch.load(file, map_location=where)["x"]
    print(x.device, x.tolist() == [0, 1, 2])
"""
    expected = ["hpu:0 True"] * 3 + ["cpu True"] * 2
    assert output_of(MIGRATED + code).splitlines() == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("torch.cuda.cudart()", "torch.cuda.cudart has no counterpart on hpu"),
        ("torch.cuda.nvtx.range_push('x')", "torch.cuda.nvtx.range_push has no counterpart on hpu"),
        ("torch.nn.DataParallel(torch.nn.Linear(1, 1))", "DistributedDataParallel"),
    ],
)
def test_unsupported_call_raises_one_sentence(run_python, call: str, message: str) -> None:
    done = run_python(MIGRATED + call)
    assert done.returncode == 1
    assert message in done.stderr.strip().splitlines()[-1]


def test_nccl_group_uses_hccl(output_of) -> None:
    code = """
import torch.distributed as dist
dist.init_process_group("nccl", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
x = torch.ones(2, device="cuda")
dist.all_reduce(x)
print(dist.get_backend(), x.tolist(), dist.is_nccl_available())
mesh = dist.init_device_mesh("cuda", (1,))
print(mesh.device_type)
dist.destroy_process_group()
"""
    assert output_of(MIGRATED + code, HLS_MODULE_ID="0").splitlines() == ["hccl [1.0, 1.0] True", "hpu"]


def test_cuda_autocast_is_hpu_autocast(output_of) -> None:
    code = """
x = torch.ones(2, 2, device="cuda")
with torch.autocast("cuda"):
    print((x @ x).dtype, torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype())
with torch.cuda.amp.autocast(dtype=torch.float16):
    print((x @ x).dtype)
print(torch.is_autocast_enabled("cuda"))
"""
    assert output_of(MIGRATED + code).split() == [
        "torch.bfloat16", "True", "torch.bfloat16", "torch.float16", "False",
    ]  # fmt: skip


def test_a_second_import_changes_nothing(output_of) -> None:
    code = """
before = torch.zeros, torch.cuda.synchronize
import importlib
importlib.reload(habana_frameworks.torch.gpu_migration)
print(before == (torch.zeros, torch.cuda.synchronize))
"""
    assert output_of(MIGRATED + code) == "True"


def test_documentation_page_is_current(output_of) -> None:
    page = Path(__file__).parents[3] / "docs" / "gpu-migration.md"
    code = (
        "from habana_frameworks.torch.gpu_migration.page import page_lines; print(*page_lines(), sep='\\n')"
    )
    assert output_of(code) + "\n" == page.read_text()
