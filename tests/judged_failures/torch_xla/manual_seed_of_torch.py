"""torch.manual_seed does not seed XLA. PyTorch's page generated/torch.manual_seed.html promises the seed for
every device.
"""

import torch
import torch_xla

probabilities = torch.full((8, 8), 0.5, dtype=torch.bfloat16)


def draws_are_equal_after(seed, spent=(0, 0), device="xla"):
    """Return whether two draws on the device after ``seed(11)`` are equal.

    Between the seed and the draw, the CPU draws ``spent[0]`` numbers the first time and ``spent[1]`` the
    second time.
    """
    values = []
    for count in spent:
        seed(11)
        if count:
            torch.rand(count)
        values.append(torch.bernoulli(probabilities.to(device)).cpu())
    return torch.equal(*values)


by_torch = draws_are_equal_after(torch.manual_seed)
by_backend = draws_are_equal_after(torch_xla.manual_seed)
print("same values after torch.manual_seed(11), CPU:", draws_are_equal_after(torch.manual_seed, device="cpu"))
print("same values after torch.manual_seed(11), XLA:", by_torch)
print("same values after torch_xla.manual_seed(11):", by_backend)
print("the same, with draws from the host's generator:", draws_are_equal_after(torch_xla.manual_seed, (0, 7)))
print("VERDICT:", "true" if not by_torch else "false")
