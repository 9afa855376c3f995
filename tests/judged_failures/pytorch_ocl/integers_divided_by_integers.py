"""On pytorch_ocl, true division of integer tensors truncates the quotients. PyTorch's page
generated/torch.div.html says that div performs a true division by default and promotes integers to the
default floating dtype. The page generated/torch.true_divide.html calls true_divide an alias of div. The
result has the dtype float32, but its values are those of an integer division.
"""

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

bad = True
for device in ("ocl", "ocl:0"):
    for dtype in (torch.int8, torch.int64):
        x, y = torch.tensor([2, -2, 4, 7], dtype=dtype).to(device), torch.tensor(5, dtype=dtype).to(device)
        function = torch.true_divide(x, y)
        scalar = torch.true_divide(x[1], y)
        out = torch.true_divide(x, y, out=torch.empty(4, device=device))
        large = torch.true_divide(torch.full((513,), 2, dtype=dtype).to(device), y).cpu()
        print(
            device,
            dtype,
            function.dtype,
            function.cpu().tolist(),
            scalar.cpu().item(),
            out.cpu().tolist(),
            "wrong of 513:",
            int((large - 0.4).abs().gt(1e-6).sum()),
            "expected [0.4, -0.4, 0.8, 1.4]",
        )
        bad &= function.cpu().tolist() == [0, 0, 0, 1] and int((large - 0.4).abs().gt(1e-6).sum()) == 513
print(
    "VERDICT:",
    "true the quotients of integers are truncated, on ocl and on ocl:0" if bad else "false true division",
)
