"""On pytorch_ocl, bmm does not support int64, in any layout or with out=. The suite's check requires equal
values for every layout of one input. The backend refuses every layout with the same error. PyTorch's page
generated/torch.bmm.html does not promise integers, and torch's CUDA backend refuses products of integers, too
(issue 44428 of PyTorch). The backend differs from the CPU only in the dtypes that it supports.
"""

import pytorch_ocl  # noqa: F401  (registers the device)
import torch


def copies_in_layouts(host):
    """Yield (name of a layout, function that creates a copy of ``host`` in this layout on a given device)."""
    yield "contiguous", lambda d: host.to(d)
    yield "transposed", lambda d: host.transpose(1, 2).contiguous().to(d).transpose(1, 2)
    yield "gaps", lambda d: torch.stack([host, host], 3).to(d)[..., 0]
    yield "offset", lambda d: torch.stack([host, host]).to(d)[1]
    yield "expanded", lambda d: host[:1].clone().to(d).expand(host.shape)


outcomes = {}
for device in ("ocl", "ocl:0"):
    for dtype in (torch.float32, torch.int64):
        host = torch.arange(8).reshape(2, 2, 2).to(dtype)
        for name, make in copies_in_layouts(host):
            try:
                torch.bmm(make(device), make(device))
                text = "accepted"
            except RuntimeError as problem:
                text = str(problem)[:28]
            outcomes.setdefault((device, dtype), {})[name] = text
        try:
            torch.bmm(host.to(device), host.to(device), out=torch.empty(2, 2, 2, dtype=dtype, device=device))
            text = "accepted"
        except RuntimeError as problem:
            text = str(problem)[:28]
        outcomes[device, dtype]["out="] = text
        print(device, dtype, outcomes[device, dtype])
# If the outcome is equal for all layouts, the layouts do not contradict each other. The comparison omits
# calls with out=.
same = all(len({text for name, text in found.items() if name != "out="}) == 1 for found in outcomes.values())
refused = all(
    text.startswith("Failed dt")
    for (_, d), found in outcomes.items()
    if d == torch.int64
    for text in found.values()
)
print(
    "VERDICT:",
    "parity bmm does not support int64 in any layout or form; no page says that it must, and no layout "
    "is treated differently"
    if same and refused
    else "true the layouts differ",
)
