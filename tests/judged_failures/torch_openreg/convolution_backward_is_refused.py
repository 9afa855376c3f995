"""On openreg, the backward of a convolution is rejected, even if no forward pass runs, as in torch.nn.grad.
Autograd needs this backward for calls such as those on PyTorch's page
generated/torch.nn.functional.conv1d.html.
"""

import torch


def has_no_backward_kernel(name, function, *arguments):
    """Make a call. Return whether the device has no kernel of
    convolution_backward_overrideable for the call.
    """
    try:
        function(*arguments)
    except NotImplementedError as error:
        print(name, "| refused:", str(error)[:60])
        return "convolution_backward_overrideable" in str(error)
    print(name, "| works")
    return False


operator = torch.ops.aten.convolution_backward
OPTIONS = ([3], [2], [2], [1], False, [0], 1, [True, True, True])
bad = []
for dtype in (torch.float32, torch.float16):
    host = [torch.ones(shape, dtype=dtype) for shape in ((1, 3, 3), (1, 3, 4), (3, 3, 3))]
    gradient, x, weight = (tensor.to("openreg") for tensor in host)
    print("CPU:", [tuple(result.shape) for result in operator(*host, *OPTIONS)])
    bad.append(
        has_no_backward_kernel(f"convolution_backward {dtype}", operator, gradient, x, weight, *OPTIONS)
    )
    arguments = ((1, 3, 5), weight, gradient)
    bad.append(
        has_no_backward_kernel(f"torch.nn.grad.conv1d_input {dtype}", torch.nn.grad.conv1d_input, *arguments)
    )
print("VERDICT:", "true" if all(bad) else "false")
