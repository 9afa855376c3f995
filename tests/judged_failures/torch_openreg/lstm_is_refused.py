"""On openreg, every LSTM is rejected. torch calls _thnn_fused_lstm_cell, which the device runs as a CPU
fallback, and the CPU has no kernel of this operator. PyTorch's page generated/torch.nn.LSTM.html describes
the module.
"""

import torch
from torch import nn

bad = []
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    x = torch.randn(2, 3, 3).to(dtype)
    packed = nn.utils.rnn.pack_padded_sequence(x, [2, 1, 1], enforce_sorted=False)
    module = nn.LSTM(3, 4).to(dtype)
    print(dtype, "CPU:", module(x)[0].dtype, module(packed)[0].data.dtype)
    module.to("openreg")
    for name, value in (("LSTM", x), ("LSTM of a packed sequence", packed)):
        try:
            module(value.to("openreg"))
            print(dtype, name, "works")
            bad.append(False)
        except NotImplementedError as error:
            print(dtype, name, "is refused:", str(error)[:60])
            bad.append("_thnn_fused_lstm_cell" in str(error))
print("VERDICT:", "true" if all(bad) else "false")
