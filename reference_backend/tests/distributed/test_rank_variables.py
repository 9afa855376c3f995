"""Test the environment variables of a rank, and hccl with device meshes and functional collectives."""

from __future__ import annotations

import os

import pytest
import torch
import torch.distributed as dist
from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu
from torch.distributed.device_mesh import init_device_mesh

NAMES = ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "HLS_MODULE_ID", "ID")
MPI = ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK")


@pytest.fixture
def environment(monkeypatch):
    for name in (*NAMES, *MPI, "HABANA_VISIBLE_MODULES"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)

    def set_variables(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_variables


def test_without_variables(environment):
    assert initialize_distributed_hpu() == (1, -1, -1)
    assert not any(name in os.environ for name in NAMES)


def test_torchrun(environment):
    environment(WORLD_SIZE="4", RANK="3", LOCAL_RANK="1", MASTER_PORT="4242")
    assert initialize_distributed_hpu() == (4, 3, 1)
    assert os.environ["MASTER_ADDR"] == "localhost" and os.environ["MASTER_PORT"] == "4242"
    assert os.environ["HLS_MODULE_ID"] == "1" and os.environ["ID"] == "3"


def test_mpirun(environment):
    environment(**dict(zip(MPI, ("2", "1", "1"), strict=True)))
    assert initialize_distributed_hpu() == (2, 1, 1)
    assert os.environ["MASTER_PORT"] == "12345"


def test_arguments_come_first(environment):
    environment(WORLD_SIZE="4", RANK="3", LOCAL_RANK="1", HABANA_VISIBLE_MODULES="4,6,7")
    assert initialize_distributed_hpu(8, 5, 2) == (8, 5, 2)
    assert os.environ["HLS_MODULE_ID"] == "7" and os.environ["ID"] == "5"


def test_too_few_modules(environment):
    environment(WORLD_SIZE="3", RANK="2", LOCAL_RANK="2", HABANA_VISIBLE_MODULES="0,1")
    with pytest.raises(AssertionError, match=r"There is not enough devices\s+available for training"):
        initialize_distributed_hpu()


def test_world_size_must_be_an_integer(environment):
    environment(WORLD_SIZE="two")
    with pytest.raises(ValueError, match="WORLD_SIZE='two' is not an integer"):
        initialize_distributed_hpu()


def test_hccl_is_the_backend_of_hpu():
    assert dist.get_default_backend_for_device("hpu") == "hccl"
    assert dist.is_backend_available("hccl")


def check_device_mesh(rank, size):
    assert dist.get_backend() == "hccl"
    mesh = init_device_mesh("hpu", (size,))
    x = torch.full((2,), rank + 1.0, device="hpu")
    dist.all_reduce(x, group=mesh.get_group())
    assert x[0].item() == size * (size + 1) / 2
    assert os.environ["HLS_MODULE_ID"] == str(rank) and torch.hpu.current_device() == 0


def check_functional_collectives(rank, size):
    from torch.distributed import _functional_collectives as functional

    x = torch.full((2, 3), rank + 1.0, device="hpu")
    group = dist.group.WORLD
    total = size * (size + 1) / 2
    assert torch.equal(functional.all_reduce(x, "sum", group).cpu(), torch.full((2, 3), total))
    wide = functional.all_gather_tensor(x, 0, group)
    assert torch.equal(wide.cpu()[:, 0], torch.arange(1.0, size + 1).repeat_interleave(2))
    back = functional.reduce_scatter_tensor(wide + 0, "sum", 0, group)
    assert torch.equal(back.cpu(), torch.full((2, 3), size * (rank + 1.0)))
    swapped = functional.all_to_all_single(wide + 0, None, None, group)
    assert torch.equal(swapped.cpu(), torch.full((2 * size, 3), rank + 1.0))
    several = functional.all_reduce_coalesced([x, x + 1], "sum", group)
    assert torch.equal(several[1].cpu(), torch.full((2, 3), total + size))


def test_meshes(on_ranks):
    on_ranks(check_device_mesh)


def test_functional_collectives(on_ranks):
    on_ranks(check_functional_collectives)
