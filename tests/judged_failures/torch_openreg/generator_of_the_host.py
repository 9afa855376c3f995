"""On openreg, random functions advance the CPU's generator. The target file torch_openreg.toml declares that
random operators accept no generator of the device (generator = false). After torch.manual_seed, the device
repeats the same numbers.
"""

import torch

state = torch.default_generator.get_state()
torch.randn(3, device="openreg", dtype=torch.bfloat16)
advanced = not torch.equal(state, torch.default_generator.get_state())
print("the host's generator advances:", advanced)
try:
    torch.randn(3, device="openreg", generator=torch.Generator("openreg"))
    refused = False
except RuntimeError as error:
    refused = True
    print("a generator of the device is refused:", str(error).splitlines()[0])
drawn = []
for _ in range(2):
    torch.manual_seed(3)
    drawn.append(torch.randn(3, device="openreg").cpu())
print("torch.manual_seed repeats the numbers:", torch.equal(*drawn))
print("VERDICT:", "false" if advanced and refused and torch.equal(*drawn) else "true")
