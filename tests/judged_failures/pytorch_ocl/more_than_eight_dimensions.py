"""On pytorch_ocl, tensors of more than eight dimensions can be neither copied nor filled. The suite's checks
require equal results for a slice of one row and for a dense tensor, here of twelve dimensions. They failed
before they called the operator. The backend refuses dense tensors and slices alike, and accepts both with up
to eight dimensions. No page says how many dimensions a backend must support. torch's MPS backend allows at
most 16.
"""

import warnings

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

warnings.simplefilter("ignore")


def shape_of_dense_copy(rank, device):
    """Copy a dense tensor of ``rank`` dimensions to a device and back, and return its shape."""
    return torch.ones((1,) * (rank - 1) + (3,)).to(device).cpu().shape


def shape_of_slice(rank, device):
    """Make a slice of one row, whose first stride does not follow from the shape, on a device. Return its
    shape.
    """
    return torch.ones((2,) + (1,) * (rank - 2) + (3,)).to(device)[:1].clone().cpu().shape


def zeros(rank, device):
    """Make zeros of ``rank`` dimensions on a device, and return their shape."""
    return torch.zeros((1,) * rank, device=device).cpu().shape


consistent = True
for device in ("ocl", "ocl:0"):
    for rank in (3, 7, 8, 9, 12):
        texts = []
        for make in (shape_of_dense_copy, shape_of_slice, zeros):
            try:
                make(rank, device)
                texts.append("accepted")
            except RuntimeError as problem:
                texts.append(str(problem)[:40])
        print(f"{device:6} {rank:2} dimensions: dense {texts[0]!r},", end=" ")
        print(f"slice of one row {texts[1]!r}, zeros {texts[2]!r}")
        consistent &= len(set(texts)) == 1 and (texts[0] == "accepted") == (rank <= 8)

# With as many dimensions as the device supports, a slice of one row must not change the result.
whole = torch.arange(1.0, 1 + 2 * 3 * 2 * 4).reshape(2, 3, 1, 2, 4)
for function in (torch.exp2, torch.isfinite, lambda t: torch.floor_divide(t, t + 1)):
    moved = whole.to("ocl")[:1]
    consistent &= torch.allclose(function(moved).cpu().float(), function(whole[:1]).float())
print("in five dimensions slices of one row give the values of dense inputs:", consistent)
print(
    "VERDICT:",
    "parity the device supports at most eight dimensions, in every layout; no page sets a minimum, and the "
    "operators named in the results were never called"
    if consistent
    else "true the layouts differ",
)
