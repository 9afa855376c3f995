"""On openreg, 1 - x and rsub(x, 1) return CPU tensors, whereas 1 + x, x - 1 and rsub(x, tensor) stay on the
device. The device thus contradicts itself. PyTorch's page generated/torch.sub.html mentions no other device
for the result.
"""

import torch

DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.complex64,
)
bad = []
for dtype in DTYPES:
    x = torch.ones(4, 5, dtype=dtype).to("openreg")
    moved = {
        "1 - x": 1 - x,
        "x.__rsub__(1)": x.__rsub__(1),
        "rsub(x, 1)": torch.rsub(x, 1),
        "aten.rsub.Scalar": torch.ops.aten.rsub.Scalar(x, 1),
    }
    calls_on_the_device = {
        "1 + x": 1 + x,
        "1 * x": 1 * x,
        "x - 1": x - 1,
        "rsub(x, tensor)": torch.rsub(x, torch.ones_like(x)),
    }
    print(dtype, {name: result.device.type for name, result in {**moved, **calls_on_the_device}.items()})
    bad.append(all(result.device.type == "cpu" for result in moved.values()))
    bad.append(all(result.device.type == "openreg" for result in calls_on_the_device.values()))
    try:
        torch.ops.aten.rsub.Scalar_out(x, 1, out=torch.empty_like(x))
        print("  out= on the device is accepted")
        bad.append(False)
    except RuntimeError as error:
        print("  out= on the device is refused:", str(error)[:70])
        bad.append(True)
number = torch.tensor(2.0)
x = torch.ones(3).to("openreg")
print("a scalar tensor of the CPU | number - x:", (number - x).device, end=" ")
print("| number + x:", (number + x).device, "| number * x:", (number * x).device)
print("VERDICT:", "true" if all(bad) else "false")
