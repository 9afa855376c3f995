"""floor_divide of a number by a tensor on pytorch_ocl returns a tensor on the CPU. The page
tensor_attributes.html says that torch moves no tensor to another device by itself. By the page
generated/torch.floor_divide.html, the dividend may be a number, so that the only tensor of the call is on
the device.

The backend contradicts itself: floor_divide(tensor, number), floor_divide(tensor, tensor) and number +
tensor stay on the device. The fallback to the CPU returns the result on the device of the first argument,
the wrapped number.
"""

import warnings

import pytorch_ocl  # noqa: F401  (registers the device)
import torch

warnings.simplefilter("ignore")
devices = {}
for place in ("ocl", "ocl:0"):
    scalar, vector = torch.tensor(2).to(place), torch.tensor([2, 3]).to(place)
    devices[place] = {
        "floor_divide(0, scalar)": torch.floor_divide(0, scalar).device.type,
        "floor_divide(7, vector)": torch.floor_divide(7, vector).device.type,
        "7 // vector": (7 // vector).device.type,
        "floor_divide(vector, 7)": torch.floor_divide(vector, 7).device.type,
        "floor_divide(vector, vector)": torch.floor_divide(vector, vector).device.type,
        "7 + vector": (7 + vector).device.type,
    }
    for call, device in devices[place].items():
        print(f"{place:6} {call:30} -> {device}")
true = all(list(found.values()) == ["cpu"] * 3 + ["ocl"] * 3 for found in devices.values())
print(
    "VERDICT:",
    "true the quotient of a number and an ocl tensor lands on the CPU; also with ocl:0"
    if true
    else "false not as described",
)
