"""On pytorch_ocl, operators that fall back to the CPU leave an out= without elements empty and raise no
error. PyTorch's page notes/out.html says that an out= without elements is resized. The page
generated/torch.index_select.html says that an out= of another shape gets the correct shape.

The backend contradicts itself: without out=, the same functions return the full results. For
upsample_nearest1d_backward, which no page describes, only this contradiction counts. The cause is the
backend's _copy_from_and_resize, which does not resize.
"""

import warnings

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

warnings.simplefilter("ignore")
aten = torch.ops.aten
bad = True
for device in ("ocl", "ocl:0"):
    x = torch.tensor([[1.0, 0.0], [4.0, 8.0]]).to(device)
    whole = torch.tensor([[1, 2], [4, 8]]).to(device)
    index = torch.tensor([0, 1, 1]).to(device)
    image = torch.arange(4, dtype=torch.uint8).reshape(1, 1, 2, 2).to(device)
    grad = torch.rand(2, 3, 8, dtype=torch.float64).to(device)
    cases = [
        ("nonzero", lambda x=x: torch.nonzero(x), lambda o, x=x: torch.nonzero(x, out=o)),
        (
            "nonzero of a scalar",
            lambda x=x: torch.nonzero(x[0, 0]),
            lambda o, x=x: torch.nonzero(x[0, 0], out=o),
        ),
        ("log2 float32", lambda x=x: torch.log2(x), lambda o, x=x: torch.log2(x, out=o)),
        ("log2 int64", lambda x=whole: torch.log2(x), lambda o, x=whole: torch.log2(x, out=o)),
        (
            "replication_pad2d uint8",
            lambda x=image: aten.replication_pad2d(x, [1, 1, 1, 1]),
            lambda o, x=image: aten.replication_pad2d.out(x, [1, 1, 1, 1], out=o),
        ),
        (
            "upsample_nearest1d_backward",
            lambda g=grad: aten.upsample_nearest1d_backward(g, [8], [2, 3, 4], None),
            lambda o, g=grad: aten.upsample_nearest1d_backward.grad_input(
                g, [8], [2, 3, 4], None, grad_input=o
            ),
        ),
    ]
    for dtype in (torch.int16, torch.int32):
        y = torch.arange(6, dtype=dtype).reshape(2, 3).to(device)
        cases.append(
            (
                f"index_select {dtype}",
                lambda y=y, i=index: torch.index_select(y, 0, i),
                lambda o, y=y, i=index: torch.index_select(y, 0, i, out=o),
            )
        )
    for name, function, with_out in cases:
        result = function()
        out = torch.empty(0, dtype=result.dtype, device=device)
        with_out(out)
        print(f"{device:6} {name:30} function {list(result.shape)}, empty out= {list(out.shape)}")
        bad &= list(out.shape) == [0] != list(result.shape)
print(
    "VERDICT:",
    "true out= keeps the shape [0] without an error, while the function returns a result; on ocl and ocl:0"
    if bad
    else "false it is resized",
)
