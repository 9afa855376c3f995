"""On pytorch_ocl, an integer tensor divided by a number raises an error. PyTorch's page
generated/torch.div.html allows a number as the divisor and says that integers are promoted to the default
floating dtype. The backend contradicts itself: division by a tensor that holds the same number raises no
error.
"""

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

raised = total = 0
for device in ("ocl", "ocl:0"):
    for dtype in (torch.int32, torch.int64):
        x = torch.arange(1, 17).to(dtype).reshape(2, 2, 2, 2).to(device)
        for name, call in {
            "aten.div.Scalar": lambda x=x: torch.ops.aten.div.Scalar(x, 2.0),
            "torch.div by 1.0": lambda x=x: torch.div(x, 1.0),
            "torch.div by 3": lambda x=x: torch.div(x, 3),
            "x / 2": lambda x=x: x / 2,
            "out=": lambda x=x, p=device: torch.ops.aten.div.Scalar_out(
                x, 2.0, out=torch.empty(x.shape, device=p)
            ),
        }.items():
            total += 1
            try:
                call()
                print(device, dtype, name, "accepted")
            except RuntimeError as problem:
                raised += 1
                print(device, dtype, name, str(problem)[:40])
        torch.div(x, torch.full_like(x, 2))
    y = torch.tensor([1.0, 2.0]).to(device)
    print(device, "float32 / 2 is right:", (y / 2).cpu().tolist() == [0.5, 1.0])
print(
    "VERDICT:",
    f"true all {total} divisions of integers by a number raise an error, on ocl and on ocl:0"
    if raised == total
    else "false accepted",
)
