"""On pytorch_ocl, fill_ on a view with a storage offset writes to the start of the base tensor. PyTorch's
page tensor_view.html says that an edit of the view is reflected in the base. The pages
generated/torch.select.html and generated/torch.Tensor.fill_.html say that select returns a view and that
fill_ fills the tensor on which it is called. The backend contradicts itself: copy_ to the same view is right.

The page generated/torch.Tensor.expand.html warns of in-place writes to an expanded tensor. The warning does
not excuse the failure: the one written element does not overlap itself, and the failure also occurs without
expand.
"""

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

wrong = True
for device in ("ocl", "ocl:0"):
    for dtype in (torch.int16, torch.int64):

        def run(write, device=device, dtype=dtype):
            base = torch.tensor([[2, 3], [4, 5], [6, 7]], dtype=dtype).to(device)
            write(base)
            return base.cpu().tolist()

        def column(write, device=device, dtype=dtype):
            base = torch.tensor([[2], [3], [4]], dtype=dtype).to(device)
            write(base)
            return base.cpu().tolist()

        select = run(lambda b: b.select(0, 1).fill_(1))
        expand = column(lambda b: b.expand(3, 4)[1, 2:3].fill_(1))
        narrow = column(lambda b: b[1].fill_(1))
        copied = run(lambda b, dtype=dtype: b.select(0, 1).copy_(torch.tensor([1, 1], dtype=dtype)))
        print(device, dtype, "select:", select, "expand:", expand, "no expand:", narrow, "copy_:", copied)
        wrong &= select == [[1, 1], [4, 5], [6, 7]] and expand == narrow == [[1], [3], [4]]
        wrong &= copied == [[2, 3], [1, 1], [6, 7]]
print(
    "VERDICT:",
    "true fill_ writes outside of the view, at the start of the memory, on ocl and on ocl:0"
    if wrong
    else "false fill_ writes the view",
)
