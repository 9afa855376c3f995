"""On pytorch_ocl, floor_divide of a number by a tensor returns a tensor on the CPU. PyTorch's page
tensor_attributes.html says that torch never moves a tensor to another device automatically. The page
generated/torch.floor_divide.html says that the dividend may be a number, so the only tensor of the call is on
the device.

The backend contradicts itself: floor_divide(tensor, number), floor_divide(tensor, tensor) and number + tensor
stay on the device. The fallback to the CPU returns the result on the device of the first argument. Here this
argument is the number, which torch wraps in a CPU tensor.
"""

import warnings

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

warnings.simplefilter("ignore")
devices = {}
for device in ("ocl", "ocl:0"):
    scalar, vector = torch.tensor(2).to(device), torch.tensor([2, 3]).to(device)
    devices[device] = {
        "floor_divide(0, scalar)": torch.floor_divide(0, scalar).device.type,
        "floor_divide(7, vector)": torch.floor_divide(7, vector).device.type,
        "7 // vector": (7 // vector).device.type,
        "floor_divide(vector, 7)": torch.floor_divide(vector, 7).device.type,
        "floor_divide(vector, vector)": torch.floor_divide(vector, vector).device.type,
        "7 + vector": (7 + vector).device.type,
    }
    for call, result_device in devices[device].items():
        print(f"{device:6} {call:30} -> {result_device}")
true = all(list(found.values()) == ["cpu"] * 3 + ["ocl"] * 3 for found in devices.values())
print(
    "VERDICT:",
    "true the quotient of a number and a tensor on ocl or ocl:0 is on the CPU"
    if true
    else "false not as described",
)
