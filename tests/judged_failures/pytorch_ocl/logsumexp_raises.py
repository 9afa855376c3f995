"""On pytorch_ocl, logsumexp raises an error about shapes for ordinary values. PyTorch's page
generated/torch.logsumexp.html describes the call, with one or several dimensions and with keepdim. The
backend contradicts itself: with an out= of the right shape it computes the right values.

With one dimension, the cause is the backend's sum. torch calls sum with an out= without elements, and sum
does not resize this out=, although the page notes/out.html requires the resize.
"""

import warnings

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

warnings.simplefilter("ignore")
bad = right = True
for device in ("ocl", "ocl:0"):
    for dtype in (torch.float64, torch.float32):
        host = torch.arange(25, dtype=dtype).reshape(5, 5) / 8
        x = torch.empty(5, 5, dtype=dtype, device=device).copy_(host)
        texts = []
        for arguments in ((1,), ((1,),), ((0, 1),), (1, True)):
            try:
                torch.logsumexp(x, *arguments)
                texts.append("accepted")
            except RuntimeError as problem:
                texts.append(str(problem).splitlines()[0])
        out = torch.logsumexp(x, 1, out=torch.empty(5, dtype=dtype, device=device))
        right &= torch.allclose(out.cpu(), torch.logsumexp(host, 1))
        print(device, dtype, texts)
        bad &= "accepted" not in texts
print("with a fitting out= the values are right:", right)
print(
    "VERDICT:",
    "true the function raises for every dim and value, and out= works, on ocl and on ocl:0"
    if bad and right
    else "false not as described",
)
