"""On pytorch_ocl, eye(4, out=t) neither rejects nor resizes a tensor t of another shape. PyTorch's page
notes/out.html allows an error or a resize in this case. The page generated/torch.eye.html says that eye
returns a tensor of two dimensions, but the result keeps the shape of t. A dense t and a channels-last t give
the same result, so the layout is not the cause.
"""

import warnings

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

warnings.simplefilter("ignore")
bad = True
for device in ("ocl", "ocl:0"):
    for label, make in {
        "dense [2, 2, 4, 4]": lambda p=device: torch.full((2, 2, 4, 4), 7, dtype=torch.uint8).to(p),
        "channels last": lambda p=device: (
            torch.full((2, 2, 4, 4, 2), 7, dtype=torch.uint8).to(p)[1].movedim(-1, 1)
        ),
        "dense [2, 2, 1, 4, 4]": lambda p=device: torch.full((2, 2, 1, 4, 4), 7, dtype=torch.uint8).to(p),
        "dense [5, 5]": lambda p=device: torch.full((5, 5), 7, dtype=torch.uint8).to(p),
    }.items():
        out = make()
        result = torch.eye(4, out=out)
        print(f"{device:6} {label:22} result {list(result.shape)},", end=" ")
        print(f"is out: {result is out}, 2-D: {result.dim() == 2}")
        bad &= list(result.shape) != [4, 4]
    fitting = torch.eye(4, out=torch.empty(4, 4, dtype=torch.uint8, device=device)).cpu()
    print(
        device,
        "fitting out= is right:",
        torch.equal(fitting, torch.eye(4, dtype=torch.uint8)),
        "; eye(4) on the device has shape",
        list(torch.eye(4, device=device).shape),
    )
print(
    "VERDICT:",
    "true an out= of another shape is neither refused nor resized, in any layout, on ocl and on ocl:0"
    if bad
    else "false resized or refused",
)
