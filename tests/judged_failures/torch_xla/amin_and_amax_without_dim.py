"""On XLA, amin and amax without dim return their input unreduced. PyTorch's pages generated/torch.amin.html
and generated/torch.amax.html say that every dimension is reduced in this case.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

wrong = []
for op in (torch.amin, torch.amax):
    for shape in ((2,), (3, 5)):
        x = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
        for options in ({}, {"dim": ()}, {"keepdim": True}):
            result = op(x.to("xla"), **options).cpu()
            expected = op(x, **options)
            print(op.__name__, shape, options, "XLA", list(result.shape), "CPU", list(expected.shape))
            wrong.append(result.shape != expected.shape)
        named = op(x.to("xla"), dim=tuple(range(x.dim()))).cpu()
        print(op.__name__, shape, "all dimensions named: XLA", list(named.shape), named.item())
print("VERDICT:", "true" if all(wrong) else "false")
