"""On pytorch_ocl, tanh of a tensor without dimensions has the shape [1], for dense and strided inputs.
PyTorch's page generated/torch.nn.Tanh.html says that the output has the same shape as the input. The backend
contradicts itself: with an out= of the shape [], the result has the shape [].
"""

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

shapes = {}
for device in ("ocl", "ocl:0"):
    dense = torch.tensor(0.5).to(device)
    strided = torch.tensor([[0.5, 1.0], [2.0, 3.0]]).to(device)[0, 0]
    constructed = torch.full((), 0.5, device=device)
    shapes[device] = [list(torch.nn.Tanh()(x).shape) for x in (dense, strided, constructed)]
    out_tensor = torch.empty((), device=device)
    torch.tanh(constructed, out=out_tensor)
    print(device, "dense, strided, constructed:", shapes[device], " out=:", list(out_tensor.shape))
print(
    "VERDICT:",
    "true Tanh of shape [] returns shape [1], for dense and strided inputs, on ocl and on ocl:0"
    if all(s == [[1], [1], [1]] for s in shapes.values())
    else "false not as described",
)
