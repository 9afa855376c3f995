"""Probing a device for the first draft of a target file."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.utils.dlpack

from conformance.accelerator import bring_up
from conformance.capabilities import CAPABILITIES
from conformance.target import Target
from conformance.target_file import DTYPES


def write_target(device: str, module: str | None) -> str:
    """The text of a target file: dtypes that can be copied there and back, capabilities that answer."""
    target = Target(
        name=device, module=module, device=device, dtypes=frozenset(DTYPES), capabilities={}, hooks={}
    )
    bring_up(target)
    lines = [
        "# Written by 'conformance targets --new'. Dtypes were copied there and back, capabilities",
        "# tried once. What is not listed counts as declared: take away what is not promised.",
        "schema = 1",
        f'name = "{device.replace(":", "-")}"',
    ]
    if module is not None:
        lines.append(f'module = "{module}"')
    lines += [f'device = "{device}"', 'modes = ["eager"]', 'precision = "ieee"', "dtypes = ["]
    lines += [f'    "{name}",' for name in DTYPES if _holds(device, name)]
    lines += ["]", "", "[capabilities]"]
    for word, test in _tests(device).items():
        if not _works(test):
            lines += [f"# {CAPABILITIES[word]}", f"{word} = false"]
    return "\n".join(lines) + "\n"


def _holds(device: str, name: str) -> bool:
    """Whether bytes of a dtype survive the way to the device and back."""
    dtype: torch.dtype | None = getattr(torch, name, None)
    if dtype is None:
        return False
    try:
        if dtype is torch.bool:
            start = torch.tensor([True, False])
        else:
            start = torch.zeros(4, dtype=torch.uint8).repeat(8).view(dtype)
        back = start.to(device).cpu()
        return back.dtype == dtype and torch.equal(back.view(torch.uint8), start.view(torch.uint8))
    except Exception:
        return False


def _works(test: Callable[[], object]) -> bool:
    try:
        return test() is not False
    except Exception:
        return False


def _tests(device: str) -> dict[str, Callable[[], object]]:
    def backward() -> object:
        leaf = torch.ones(2).to(device).requires_grad_()
        (leaf * leaf).sum().backward()  # type: ignore[no-untyped-call]
        return leaf.grad is not None

    def seeded() -> object:
        return torch.rand(2, device=device, generator=torch.Generator(device).manual_seed(1))

    def autocast() -> object:
        with torch.autocast(torch.device(device).type):
            return torch.ones(2, 2).to(device) @ torch.ones(2, 2).to(device)

    accelerated = torch.device(device).type != "cpu"
    return {
        "autograd": backward,
        "random": lambda: torch.rand(2, device=device),
        "generator": seeded,
        "autocast": autocast,
        "sparse": lambda: torch.eye(2).to_sparse().to(device).to_dense(),
        "sparse_compressed": lambda: torch.eye(2).to_sparse_csr().to(device).to_dense(),
        "streams": lambda: accelerated and torch.Stream(torch.device(device)),
        "events": lambda: accelerated and torch.Event(torch.device(device)),
        "pinned_memory": lambda: accelerated and torch.empty(1).pin_memory(),
        "memory_statistics": lambda: accelerated and torch.accelerator.memory_allocated(),
        "multiple_devices": lambda: accelerated and torch.accelerator.device_count() > 1,
        "peer_copy": lambda: accelerated and torch.accelerator.device_count() > 1,
        "dlpack": lambda: torch.utils.dlpack.from_dlpack(torch.ones(2).to(device)),
    }
