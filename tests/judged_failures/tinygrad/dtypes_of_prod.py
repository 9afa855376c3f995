"""On tinygrad, torch.prod of integers and bools returns different dtypes without dim and with dim. For a
vector both calls compute the same product. PyTorch's page generated/torch.prod.html does not name the dtype.
"""

import extra.torch_backend.backend  # noqa: F401  (registers the device)
import torch

contradicts = True
for dtype, shape in ((torch.int8, (5, 5, 5)), (torch.bool, (2, 5, 5, 5))):
    host = torch.ones(shape, dtype=dtype)
    x = host.to("tiny")
    without_dim = torch.ops.aten.prod.default(x)
    with_dim = torch.ops.aten.prod.dim_int(x.reshape(-1), 0)
    meta = torch.ops.aten.prod.default(torch.empty(shape, dtype=dtype, device="meta"))
    print(dtype, shape, "prod(x):", without_dim.dtype, "| prod(x.flatten(), 0):", with_dim.dtype, end=" ")
    print("| sum(x):", torch.sum(x).dtype, "| meta:", meta.dtype, "| CPU:", torch.prod(host).dtype)
    contradicts &= without_dim.dtype != with_dim.dtype
v = torch.tensor([3, 100, 1, 100], dtype=torch.int8, device="tiny")
without_dim, with_dim = torch.prod(v).cpu().item(), torch.prod(v, 0).cpu().item()
print("int8 [3, 100, 1, 100]: prod(x) =", without_dim, "| prod(x, 0) =", with_dim)
contradicts &= without_dim != with_dim
for dtype in (torch.int64, torch.int8):
    try:
        torch.ops.aten.prod.out(v, out=torch.empty((), dtype=dtype, device="tiny"))
        print("out= of", dtype, "is accepted")
    except RuntimeError as error:
        print("out= of", dtype, "is refused:", error)
print("VERDICT:", "true" if contradicts else "parity")
