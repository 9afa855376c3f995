"""On openreg, GRU of complex64 is rejected, like every GRU. On the CPU it works. PyTorch's page
generated/torch.nn.GRU.html does not say that the module accepts complex numbers.
"""

import torch

module, x = torch.nn.GRU(3, 4, dtype=torch.complex64), torch.ones(5, 2, 3, dtype=torch.complex64)
packed = torch.nn.utils.rnn.pack_padded_sequence(x, [5, 3])
promised = "complex" in torch.nn.GRU.__doc__
print("CPU:", tuple(module(packed)[0].data.shape), "| the page mentions complex numbers:", promised)
try:
    module.to("openreg")(packed.to("openreg"))
    refused = False
    print("openreg accepts it")
except NotImplementedError as error:
    refused = "_thnn_fused_gru_cell" in str(error)
    print("openreg refuses it:", str(error)[:60])
print("VERDICT:", "parity" if refused and not promised else "false")
