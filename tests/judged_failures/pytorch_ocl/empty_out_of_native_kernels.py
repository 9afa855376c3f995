"""On pytorch_ocl, ceil, min of two tensors and amax do not resize an out= without elements. PyTorch's page
notes/out.html says that an out= without elements is resized. Most of the calls raise an error about the
shape, and min of scalars keeps the shape [0] of out=. The backend contradicts itself: the same calls work
without out=, and with an out= of the right shape.
"""

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

bad = True
for device in ("ocl", "ocl:0"):
    x = torch.rand(20, 20).to(device)
    left, right = torch.ones(5, 1, dtype=torch.bool).to(device), torch.ones(5, dtype=torch.bool).to(device)
    number = torch.tensor(True).to(device)
    cases = {
        "ceil": (lambda x=x, **k: torch.ceil(x, **k), torch.float32),
        "min of scalars": (lambda x=number, **k: torch.min(x, x, **k), torch.bool),
        "min of bools": (lambda x=left, y=right, **k: torch.min(x, y, **k), torch.bool),
    }
    for dtype in (torch.bool, torch.int16):
        z = torch.tensor([[1, 0], [0, 1]]).to(dtype).to(device)
        cases[f"amax {dtype}"] = (lambda z=z, **k: torch.amax(z, **k), dtype)
        cases[f"amax (0, 1) {dtype}"] = (lambda z=z, **k: torch.amax(z, (0, 1), **k), dtype)
    for name, (call, dtype) in cases.items():
        function = call()
        fitting = torch.empty(function.shape, dtype=dtype, device=device)
        call(out=fitting)
        out = torch.empty(0, dtype=dtype, device=device)
        try:
            call(out=out)
            text = f"left at {list(out.shape)}"
        except RuntimeError as problem:
            text = "raised " + str(problem).splitlines()[0][:70]
        print(f"{device:6} {name:26} function {list(function.shape)}, fitting out= works, empty out=: {text}")
        bad &= text != f"left at {list(function.shape)}"
print(
    "VERDICT:",
    "true an out= without elements is not resized, on ocl and on ocl:0" if bad else "false it is resized",
)
