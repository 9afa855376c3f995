"""On XLA, a write to a part that unsafe_split returns does not reach the base. A write to a part that split
returns does. PyTorch's page generated/torch.unsafe_split.html compares the function with split, whose page
says that the parts are views.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)


def write_to_last_part(base):
    """Write to the last part of a tensor and return the tensor."""
    base.unsafe_split(2, dim=2)[-1].fill_(1)
    return base


DTYPES = (torch.float32, torch.complex64)
written = {}
for dtype in DTYPES:
    for name in ("split", "unsafe_split"):
        for device in ("cpu", "xla"):
            base = torch.full((2, 3, 4), 5).to(dtype).to(device)
            getattr(torch, name)(base, 2, dim=2)[-1].fill_(1)
            count = written[dtype, name, device] = int((base.cpu() == 1).sum())
            print(dtype, name, device, "elements of the base written:", count, "of 12")
functionalized = torch.func.functionalize(write_to_last_part)(torch.full((2, 3, 4), 5.0))
print(
    "for information: torch.func.functionalize on the CPU writes", int((functionalized == 1).sum()), "of 12"
)
differs = all(written[d, "split", "xla"] == 12 and written[d, "unsafe_split", "xla"] == 0 for d in DTYPES)
print("VERDICT:", "true" if differs else "false")
