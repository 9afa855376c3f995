"""On openreg, convolutions of int64 are rejected like those of all other dtypes. On the CPU they work. No
PyTorch page of a convolution, such as generated/torch.nn.functional.conv_transpose2d.html, says that
convolutions accept integers.
"""

import torch
import torch.nn.functional as F
from torch import nn

x, weight = torch.ones(1, 3, 4, 4, dtype=torch.int64), torch.ones(3, 3, 3, 3, dtype=torch.int64)
options = (None, [2], [2], [1], False, [0], 1)
CALLS = {
    "conv_transpose2d": (F.conv_transpose2d, x, weight),
    "convolution": (torch.convolution, x[..., 0], weight[..., 0], *options),
}
refused = []
for name, (function, x, weight, *rest) in CALLS.items():
    print(name, "| CPU:", function(x, weight, *rest).dtype, end=" ")
    try:
        print("| openreg:", function(x.to("openreg"), weight.to("openreg"), *rest).dtype)
        refused.append(False)
    except NotImplementedError as error:
        print("| openreg refuses:", str(error)[:60])
        refused.append(True)
pages = (F.conv1d, F.conv2d, F.conv_transpose2d, nn.Conv1d, nn.ConvTranspose2d)
promised = any("int64" in page.__doc__ or "integer data" in page.__doc__ for page in pages)
print("a page names integer data:", promised)
print("VERDICT:", "parity" if all(refused) and not promised else "false")
