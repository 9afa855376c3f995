"""On XLA, t() of a matrix is contiguous, because XLA stores no strides. So contiguous() may return its input,
and reshape, flatten and ravel may return views. PyTorch's page generated/torch.reshape.html promises neither
a copy nor a view.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

FUNCTIONS = {
    "contiguous": lambda t: t.contiguous(),
    "reshape": lambda t: t.reshape(12),
    "reshape_as": lambda t: t.reshape_as(t.new_empty(2, 6)),
    "flatten": lambda t: t.flatten(),
    "ravel": lambda t: t.ravel(),
}
base = torch.arange(12.0).reshape(3, 4).to("xla")
turned = base.t()
print("strides of base and t():", base.stride(), turned.stride())
print("t() is contiguous:", turned.is_contiguous())
print("contiguous() returns its input:", turned.contiguous() is turned)
print("view(12), which needs compatible strides, works:", turned.view(12).tolist())
consistent = turned.is_contiguous() and turned.contiguous() is turned
for dtype in (torch.float32, torch.complex64):
    for name, function in FUNCTIONS.items():
        x = torch.arange(12).reshape(3, 4).to(dtype)
        y = x.to("xla")
        result = function(y.t())
        right = torch.equal(result.cpu(), function(x.t()))  # the values before any write
        result.fill_(7)
        is_view = bool((y.cpu() == 7).all())  # the write reaches the whole base, so the result is a view
        print(dtype, name, "| values right:", right, "| is a view of its input:", is_view)
        consistent = consistent and right and is_view
print("The reported values come from the write of 7 into contiguous(), which is the base.")
print("VERDICT:", "false" if consistent else "true")
