"""On pytorch_ocl, fill_ refuses every view that is not contiguous, with "dlprim::Tensor must be contiguous".
PyTorch's page tensor_view.html says that an edit of a view is reflected in the base, and lists the operators
that return such views. The page generated/torch.Tensor.fill_.html does not require a contiguous tensor. The
backend contradicts itself: copy_ to the same views is right, and fill_ of a contiguous view works.
"""

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

VIEWS = {
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "diagonal": lambda x: x.diagonal(-1),
    "columns": lambda x: x[:, 1:3],
    "transpose": lambda x: x.transpose(0, 1),
}
refused = copied = total = 0
for device in ("ocl", "ocl:0"):
    for dtype in (torch.bool, torch.int64):
        for name, view in VIEWS.items():
            total += 1
            host = torch.arange(12).reshape(3, 4).to(dtype)
            expected = host.clone()
            view(expected).fill_(1)
            base = host.to(device)
            try:
                view(base).fill_(1)
                print(device, dtype, name, "accepted", torch.equal(base.cpu(), expected))
            except RuntimeError as problem:
                refused += "must be contiguous" in str(problem)
            base = host.to(device)
            view(base).copy_(torch.ones_like(view(host)))
            copied += torch.equal(base.cpu(), expected)
flat = torch.zeros(3, 4).to("ocl").view(2, 6)
print("fill_ of a contiguous view:", flat.fill_(1).cpu().sum().item(), "of 12")
print(f"fill_ refused {refused} of {total} strided views; copy_ into the same views was right {copied} times")
print(
    "VERDICT:",
    "true fill_ refuses every view that is not contiguous, on ocl and on ocl:0"
    if refused == copied == total
    else "false not as described",
)
