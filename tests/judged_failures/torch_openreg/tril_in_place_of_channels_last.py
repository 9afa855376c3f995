"""On openreg, tril_ and tril of a tensor that is not contiguous return different values. PyTorch's page
generated/torch.Tensor.tril_.html calls tril_ the in-place version of tril.
"""

import torch

bad = []
for dtype in (torch.bfloat16, torch.float32, torch.int64):
    x = torch.arange(400).reshape(2, 4, 10, 5).to(dtype).contiguous(memory_format=torch.channels_last)
    function, in_place, host = x.to("openreg").tril().cpu(), x.to("openreg"), x.clone()
    in_place.tril_()
    host.tril_()
    right, equal = torch.equal(function, x.tril()), torch.equal(in_place.cpu(), function)
    print(dtype, "| tril is right:", right, "| tril_ equals it:", equal, end=" ")
    print("| tril_ of the CPU is right:", torch.equal(host, function))
    bad.append(right and not equal and torch.equal(host, function))
    contiguous = x.contiguous().to("openreg")
    contiguous.tril_()
    print("  tril_ of a contiguous tensor is right:", torch.equal(contiguous.cpu(), function))
print("VERDICT:", "true" if all(bad) else "false")
