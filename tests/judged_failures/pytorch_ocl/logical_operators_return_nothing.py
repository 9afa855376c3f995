"""On pytorch_ocl, logical_not and logical_or return a tensor of the shape [0]. PyTorch's pages
generated/torch.logical_not.html and generated/torch.logical_or.html describe element-wise operators. The
backend contradicts itself: logical_not with an out= of the right shape is right. Every dtype, every layout
and every number of dimensions fails alike.
"""

import warnings

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

warnings.simplefilter("ignore")
DTYPES = (torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64)
bad = fitting = True
for device in ("ocl", "ocl:0"):
    for dtype in DTYPES:
        host = torch.tensor([[0, 1, 1], [1, 0, 0]]).to(dtype)
        row = host[1].clone()
        for name, x in {
            "dense": host.to(device),
            "strided": host.t().contiguous().to(device).t(),
            "at an offset": torch.stack([host, host]).to(device)[1],
        }.items():
            shapes = [
                list(torch.logical_not(x).shape),
                list(torch.logical_or(x, x).shape),
                list(torch.logical_or(x, row.to(device)).shape),
                list(torch.logical_not(x[0, 0]).shape),
            ]
            bad &= shapes == [[0]] * 4
            out = torch.empty(2, 3, dtype=torch.bool, device=device)
            torch.logical_not(x, out=out)
            fitting &= torch.equal(out.cpu(), torch.logical_not(host))
            if name == "dense":
                print(device, dtype, "not, or, or broadcast, not of a scalar:", shapes)
print("out= of the right shape is right everywhere:", fitting)
print(
    "VERDICT:",
    "true the function returns shape [0], and with a fitting out= it is right, on ocl and on ocl:0"
    if bad and fitting
    else "false not as described",
)
