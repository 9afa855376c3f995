"""On openreg, an out= on the CPU for a device tensor raises a NotImplementedError, which names another
operator. PyTorch's page notes/out.html says that the devices must match. It does not say which error a call
with different devices raises.
"""

import torch

refused = []
for dtype in (torch.float32, torch.float64, torch.int64, torch.uint8, torch.complex64):
    host = torch.ones(3, 4, 5).to(dtype)
    x = host.to("openreg")
    total = torch.full((4, 5), 7).to(host.sum(0).dtype)
    calls = {
        "sum": (torch.sum, total, x, 0),
        "nonzero": (torch.nonzero, torch.empty(0, dtype=torch.int64), x),
    }
    if not dtype.is_complex:
        pair = (torch.empty(3, 5, dtype=dtype), torch.empty(3, 5, dtype=torch.int64))
        calls["max"] = (torch.max, pair, x, 1)
    for name, (function, out, *arguments) in calls.items():
        try:
            function(*arguments, out=out)
            print(name, dtype, "| accepted")
            refused.append(False)
        except RuntimeError as error:
            print(name, dtype, "|", type(error).__name__, "|", str(error)[:60])
            refused.append(True)
    print("  out of sum was written before the error:", not bool((total == 7).all()))
print("VERDICT:", "parity" if all(refused) else "true")
