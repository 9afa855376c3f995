"""Generate ``docs/gpu-migration.md``, the documentation of GPU migration.

To write this page, run ``python -m habana_frameworks.torch.gpu_migration.page > docs/gpu-migration.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .cuda_module import SUBMODULES, hpu_counterpart, is_function_without_hpu_counterpart
from .torch_calls import CONSTRUCTORS, MAPPED, OTHERS

_START = """# GPU migration

`import habana_frameworks.torch.gpu_migration`, or `PT_HPU_GPU_MIGRATION=1` with any import of the device,
runs a program that was written for `torch.cuda` on hpu, unedited:

```python
import habana_frameworks.torch.gpu_migration
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(4, 2).to(device)
with torch.autocast("cuda"):
    loss = model(torch.ones(3, 4, device="cuda")).sum()
loss.backward()
torch.cuda.synchronize()
print(loss.device)
```

`torch.device("cuda")` itself stays a cuda device, so that `device.type == "cuda"` holds as the program
expects. A tensor created on this device is on hpu: `tensor.is_cuda` is true, and `tensor.device` is `hpu:0`.
C++ code that names cuda is not migrated. Autocast without a dtype uses bfloat16, the default of hpu."""


def page_lines() -> Iterator[str]:
    """Yield the lines of the documentation page."""
    yield _START
    names = sorted(torch.cuda.__all__)
    yield ""
    yield "## torch.cuda"
    yield ""
    yield "These functions are the functions of `torch.hpu`, or have the same effect:"
    yield ""
    yield ", ".join(f"`torch.cuda.{name}`" for name in names if hpu_counterpart(name) is not None) + "."
    yield ""
    yield (
        "These functions raise an error, because hpu has no counterpart. Functions of "
        + ", ".join(f"`torch.cuda.{part}`" for part in SUBMODULES)
        + " that are not listed above raise the same error:"
    )
    yield ""
    yield (
        ", ".join(f"`torch.cuda.{name}`" for name in names if is_function_without_hpu_counterpart(name)) + "."
    )
    yield ""
    rest = [n for n in names if hpu_counterpart(n) is None and not is_function_without_hpu_counterpart(n)]
    yield (
        "These classes and submodules are torch's own: "
        + ", ".join(f"`torch.cuda.{name}`" for name in rest)
        + "."
    )
    yield ""
    yield "## Functions of torch that take a device"
    yield ""
    yield "These functions use hpu if an argument is a cuda device or its name:"
    yield ""
    constructors = sorted(f"{module.__name__}.{name}" for module, name in CONSTRUCTORS)
    yield ", ".join(f"`{name}`" for name in constructors) + "."
    yield ""
    yield "| owner | functions |"
    yield "|---|---|"
    for owner, functions in MAPPED.items():
        yield f"| `{owner}` | " + ", ".join(f"`{owner}.{name}`" for name in sorted(functions)) + " |"
    yield ""
    yield "## Others"
    yield ""
    yield "| name | on hpu |"
    yield "|---|---|"
    for names_of, meaning in OTHERS.items():
        yield f"| `{names_of}` | {meaning} |"


if __name__ == "__main__":
    print("\n".join(page_lines()))
