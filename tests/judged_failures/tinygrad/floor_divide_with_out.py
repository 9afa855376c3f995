"""On tinygrad, floor_divide returns correct results, but rejects out=. The signature on PyTorch's page
generated/torch.floor_divide.html has out=.
"""

import extra.torch_backend.backend  # noqa: F401  (registers the device)
import torch

refused = True
for dtype, first, second in (
    (torch.float64, (5, 1), (5,)),
    (torch.int32, (5, 10, 5), (5, 10, 5)),
    (torch.int16, (5, 10, 5), (5, 10, 5)),
    (torch.uint8, (5, 10, 5), (5, 10, 5)),
):
    a, b = torch.full(first, 7, dtype=dtype), torch.full(second, 2, dtype=dtype)
    expected = torch.floor_divide(a, b)
    result = torch.floor_divide(a.to("tiny"), b.to("tiny"))
    print(dtype, "the function on the device is right:", torch.equal(result.cpu(), expected))
    out = torch.empty(expected.shape, dtype=dtype, device="tiny").fill_(1)
    try:
        torch.floor_divide(a.to("tiny"), b.to("tiny"), out=out)
        right = torch.equal(out.cpu(), expected)
        print("   out= on the device is right:", right)
        refused &= not right
    except NotImplementedError as error:
        print("   out= on the device:", str(error)[:75])
    host = torch.empty(expected.shape, dtype=dtype)
    print("   out= on the CPU is right:", torch.equal(torch.floor_divide(a, b, out=host), expected))
print("VERDICT:", "true" if refused else "false")
