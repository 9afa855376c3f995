"""On XLA, the result of count_nonzero with dim reports dim as its shape: (0,) for dim=0 and (0, 1) for
dim=(0, 1). A copy of the result on the CPU has the right shape, so the device contradicts itself. PyTorch's
page generated/torch.count_nonzero.html says that dim is the dimension along which the function counts.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

wrong = []
CALLS = (((5,), 0), ((2, 3), 0), ((3, 1, 3), 1), ((3, 1, 2), -1), ((3, 1, 2), (1, 2)), ((0, 4, 5), 0))
for shape, dim in CALLS:
    host = torch.ones(shape, dtype=torch.int64)
    result = host.to("xla").count_nonzero(dim)
    reported, copied = tuple(result.shape), tuple(result.cpu().shape)
    expected = tuple(host.count_nonzero(dim).shape)
    print(shape, "dim", dim, "| reported:", reported, "| of the copy:", copied, "| CPU:", expected)
    wrong.append(reported != expected and copied == expected)
reason = "the reported shape contradicts the copy and the page"
print("VERDICT:", "true" if all(wrong) else "false", "-", reason)
