"""On openreg, every convolution is rejected, because the device has no kernel of convolution_overrideable.
PyTorch's pages, such as generated/torch.nn.functional.conv2d.html and generated/torch.nn.Conv1d.html,
describe convolutions.
"""

import torch
import torch.nn.functional as F
from torch import nn

DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.complex64,
    torch.complex128,
)


def ones(*shape, dtype=torch.float32):
    """Return a tensor of ones on the device."""
    return torch.ones(shape, dtype=dtype).to("openreg")


def has_no_convolution_kernel(name, function, *arguments, **options):
    """Make a call. Return whether the device has no kernel of convolution_overrideable for the call."""
    try:
        function(*arguments, **options)
    except NotImplementedError as error:
        print(name, "| refused:", str(error)[:60])
        return "convolution_overrideable" in str(error)
    print(name, "| works")
    return False


bad = []
for dimensions in (1, 2, 3):
    convolution = getattr(F, f"conv{dimensions}d")
    transposed = getattr(F, f"conv_transpose{dimensions}d")
    for dtype in DTYPES:
        x = ones(1, 2, *[5] * dimensions, dtype=dtype)
        weight = ones(2, 2, *[3] * dimensions, dtype=dtype)
        name = f"{dimensions} dimensions {dtype}"
        bad.append(has_no_convolution_kernel(f"convolution {name}", convolution, x, weight))
        bad.append(has_no_convolution_kernel(f"transposed convolution {name}", transposed, x, weight))
        if not dtype.is_complex:
            bad.append(
                has_no_convolution_kernel(f"same padding {name}", convolution, x, weight, padding="same")
            )
        bad.append(has_no_convolution_kernel(f"stride {name}", convolution, x, weight, stride=2))
x, weight = ones(1, 3, 4, dtype=torch.bfloat16), ones(3, 3, 3, dtype=torch.bfloat16)
options = ([2], [2], [1], False, [0], 1)
bad.append(
    has_no_convolution_kernel("torch.convolution bfloat16", torch.convolution, x, weight, None, *options)
)
bad.append(has_no_convolution_kernel("Conv1d", nn.Conv1d(4, 5, 3).to("openreg"), ones(2, 4, 6)))
bad.append(
    has_no_convolution_kernel("ConvTranspose2d", nn.ConvTranspose2d(4, 5, 3).to("openreg"), ones(2, 4, 6, 6))
)
module = nn.ConvTranspose2d(4, 5, 3, device="openreg", dtype=torch.bfloat16)
bad.append(
    has_no_convolution_kernel(
        "ConvTranspose2d made on openreg", module, ones(1, 4, 6, 6, dtype=torch.bfloat16)
    )
)
weight = nn.init.dirac_(torch.empty(9, 3, 3, device="openreg"))
print("dirac_ is right:", torch.equal(weight.cpu(), nn.init.dirac_(torch.empty(9, 3, 3))))
bad.append(has_no_convolution_kernel("convolution by these weights", F.conv1d, ones(2, 3, 5), weight))
print("VERDICT:", "true" if all(bad) else "false")
