"""On XLA, the result of count_nonzero has the dtype of the input. The count 300 therefore becomes 44 for int8
and True for bool. PyTorch's page generated/torch.count_nonzero.html says that the function counts, and its
example has integer results for floating-point inputs.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

counts = {}
for name in ["bool", "int8", "int16", "bfloat16", "complex64", "float32", "int64"]:
    size = {"int16": 40000, "bfloat16": 1001}.get(name, 300)
    host = torch.ones(size, dtype=getattr(torch, name))
    result = torch.count_nonzero(host.to("xla")).cpu()
    counts[name] = (size, result.item(), result.dtype)
    print(name, "| elements", size, "| XLA:", result, "| CPU:", torch.count_nonzero(host))
same = all(dtype == getattr(torch, name) for name, (_, _, dtype) in counts.items())
wrong_count = all(counts[name][0] != counts[name][1] for name in ("bool", "int8", "int16", "bfloat16"))
page = torch.zeros(3, 3)
page[0, 1] = page[0, 2] = page[2, 2] = 1
example = torch.count_nonzero(page.to("xla"), dim=0).cpu()
print("the page's example, tensor([0, 1, 2]):", example)
reason = "the counts are wrong, and the page's example is of integers"
print("VERDICT:", "true" if same and wrong_count and example.is_floating_point() else "false", "-", reason)
