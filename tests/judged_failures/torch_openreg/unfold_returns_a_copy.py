"""On openreg, unfold returns a dense copy, so a write to the result does not reach the original tensor.
PyTorch's page generated/torch.Tensor.unfold.html says that unfold returns a view.
"""

import torch

bad = []
for dtype in (torch.int64, torch.int32, torch.int8, torch.float32, torch.complex64):
    host = torch.arange(125).reshape(1, 5, 5, 5).to(dtype)
    x = host.to("openreg")
    view = x.unfold(2, 3, 1)
    shares = view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    print(dtype, "| strides:", view.stride(), "| CPU:", host.unfold(2, 3, 1).stride(), end=" ")
    view.fill_(-7)
    written = bool((x.cpu() == -7).any())
    print("| shares the storage:", shares, "| _is_view():", view._is_view(), "| a write arrives:", written)
    bad.append(not shares and not written and view.stride() != host.unfold(2, 3, 1).stride())
print("VERDICT:", "true" if all(bad) else "false")
