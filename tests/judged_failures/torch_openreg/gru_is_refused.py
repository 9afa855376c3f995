"""On openreg, every GRU is rejected. torch calls _thnn_fused_gru_cell, which the device runs as a CPU
fallback, and the CPU has no kernel of this operator. PyTorch's page generated/torch.nn.GRU.html describes the
module.
"""

import torch

bad = []
for dtype in (torch.float32, torch.bfloat16):
    for bidirectional in (False, True):
        module = torch.nn.GRU(3, 4, bidirectional=bidirectional, dtype=dtype)
        x = torch.ones(5, 2, 3, dtype=dtype)
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, [5, 3])
        print(dtype, "CPU:", tuple(module(x)[0].shape), tuple(module(packed)[0].data.shape))
        module.to("openreg")
        for name, value in (("GRU", x), ("GRU of a packed sequence", packed)):
            try:
                module(value.to("openreg"))
                print(dtype, name, "works")
                bad.append(False)
            except NotImplementedError as error:
                print(dtype, name, "is refused:", str(error)[:60])
                bad.append("_thnn_fused_gru_cell" in str(error))
print("VERDICT:", "true" if all(bad) else "false")
