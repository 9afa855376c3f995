"""On openreg, scaled_dot_product_attention rejects 3-D queries, keys or values. PyTorch's page
generated/torch.nn.functional.scaled_dot_product_attention.html does not say that the dimension of the batch
or of the heads is optional.
"""

import torch
import torch.nn.functional as F

refused = []
for shapes in (((4, 3, 8), (4, 6, 8), (4, 6, 8)), ((1, 4, 3, 8), (4, 6, 8), (4, 6, 8))):
    inputs = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    result = F.scaled_dot_product_attention(*inputs, is_causal=True)
    print(shapes, "| CPU:", tuple(result.shape), end=" ")
    try:
        F.scaled_dot_product_attention(*(x.to("openreg") for x in inputs), is_causal=True)
        print("| openreg accepts them")
        refused.append(False)
    except IndexError as error:
        print("| openreg refuses them:", error)
        refused.append(True)
lines = F.scaled_dot_product_attention.__doc__.splitlines()
print([line.strip() for line in lines if "(N, ..., H" in line or "other batch" in line])
print("VERDICT:", "parity" if all(refused) else "false")
