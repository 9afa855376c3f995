"""Test that the host cannot access device memory, and that a fork cannot use its parent's device memory."""

import signal

import pytest
import torch
from habana_frameworks.torch import _C


@pytest.mark.parametrize("access", ["cell.value", "cell.__setattr__('value', 1.0)"])
def test_host_access_faults(python, access):
    done = python(
        "import ctypes\nt = torch.ones(4, device='hpu')\n"
        f"cell = ctypes.c_float.from_address(t.data_ptr())\n{access}"
    )
    assert done.returncode == -signal.SIGSEGV, done.stderr


def test_host_view_shares_the_bytes():
    tensor = torch.arange(6.0, device="hpu").reshape(2, 3)
    view = _C.host_view(tensor.t())
    assert view.device.type == "cpu" and view.stride() == (1, 3)
    view.fill_(7)
    assert tensor.tolist() == [[7.0] * 3] * 2


def test_host_view_keeps_the_memory():
    view = _C.host_view(torch.full((1000,), 3.0, device="hpu"))
    other_tensors = [torch.full((1000,), 5.0, device="hpu") for _ in range(20)]
    assert view.eq(3).all() and len(other_tensors) == 20


FORKED = """
import os, gc, sys
t = torch.ones(1000, device='hpu'); g = torch.hpu.get_rng_state()
pid = os.fork()
if pid == 0:
    refused = 0
    for use in (lambda: t + 1, lambda: t.add_(1), lambda: t.cpu(), lambda: torch.empty(2, device='hpu'),
                lambda: torch.rand(2, device='hpu'), lambda: torch.hpu.synchronize(), lambda: t[0].item(),
                lambda: t.copy_(torch.zeros(1000)), lambda: t.resize_(5000)):
        try:
            use()
        except RuntimeError as error:
            refused += 'fork' in str(error)
    del t; gc.collect()
    assert (torch.ones(3) + 1).sum() == 6          # the CPU still works in the child
    os._exit(refused)
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 9, os.waitstatus_to_exitcode(status)
assert t.eq(1).all().item()
"""


def test_device_use_in_a_fork_raises_and_does_no_harm(python):
    done = python(FORKED)
    assert done.returncode == 0, done.stderr


def test_fork_before_first_use_works_in_both(python):
    script = (
        "import os\npid = os.fork()\nx = torch.ones(3, device='hpu').sum().item()\n"
        "if pid == 0: os._exit(int(x))\n_, s = os.waitpid(pid, 0)\nassert os.waitstatus_to_exitcode(s) == 3"
    )
    done = python(script)
    assert done.returncode == 0, done.stderr


def test_exit_with_live_tensors_is_clean(python):
    done = python("import builtins\nbuiltins.kept = [torch.ones(9, device='hpu', requires_grad=True) * 2]")
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_devices_never_share_addresses_with_the_host():
    tensor = torch.ones(10, device="hpu")
    assert tensor.data_ptr() != _C.host_view(tensor).data_ptr()
    assert tensor[3:].data_ptr() - tensor.data_ptr() == 12
