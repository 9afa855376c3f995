"""On pytorch_ocl, logsumexp with out=rows[1], a row of a larger tensor, writes part of its result to row 0.
PyTorch's page notes/out.html says that an out= of the right shape receives the result. The page
tensor_view.html says that a row is a view of the larger tensor. The backend contradicts itself: the result is
right if out= has no storage offset.

logsumexp calls log_ on its result. The backend's kernels of log and ceil ignore the storage offset of the
tensor that they write. A single call shows the fault.
"""

import warnings

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

warnings.simplefilter("ignore")
bad = True
for device in ("ocl", "ocl:0"):
    host = torch.tensor([[9, 2], [3, 4]], dtype=torch.int16)
    expected = torch.logsumexp(host, 1)
    x = torch.empty(2, 2, dtype=torch.int16, device=device).copy_(host)
    alone = torch.logsumexp(x, 1, out=torch.ones(2, device=device)).cpu()
    rows = torch.ones(3, 2, device=device)
    torch.logsumexp(x, 1, out=rows[1])
    print(
        device,
        "expected",
        expected.tolist(),
        "own memory",
        alone.tolist(),
        "rows after out=rows[1]",
        rows.cpu().tolist(),
    )
    rows_of_ones = torch.ones(3, 2, device=device)
    torch.ceil(torch.full((2,), 2.0, device=device), out=rows_of_ones[1])
    print(device, "the same with ceil and out=rows[1]:", rows_of_ones.cpu().tolist())
    bad &= torch.allclose(alone, expected) and not torch.allclose(rows[1].cpu(), expected)
    bad &= not torch.equal(rows[0].cpu(), torch.ones(2))
print(
    "VERDICT:",
    "true out= at a storage offset gets wrong values, and the memory before this out= is overwritten"
    if bad
    else "false the row is right",
)
