"""On XLA, amax without dim, or with dim=None or dim=(), returns its input unreduced, also with out=.
PyTorch's page generated/torch.amax.html says that all dimensions are reduced if dim is None.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

wrong = []
for name in ["bool", "int32", "int64", "float16", "float32"]:
    host = torch.tensor([[1, 0, 1], [0, 1, 0]]).to(getattr(torch, name))
    x = host.to("xla")
    out = torch.empty((), dtype=host.dtype).to("xla")
    torch.amax(x, (), out=out)
    results = {
        "amax(x)": torch.amax(x),
        "amax(x, None)": torch.amax(x, None),
        "amax(x, ())": torch.amax(x, ()),
        "x.amax()": x.amax(),
        "amax(x, keepdim=True)": torch.amax(x, keepdim=True),
        "amax(x, (), out=out)": out,
    }
    shapes = {call: tuple(result.cpu().shape) for call, result in results.items()}
    both = tuple(torch.amax(x, (0, 1)).cpu().shape)
    print(name, shapes, "| amax(x, (0, 1)):", both, "| CPU:", tuple(torch.amax(host).shape))
    wrong.append(all(size == (2, 3) for size in shapes.values()) and both == ())
reason = "without dim nothing is reduced, and the page says that everything is"
print("VERDICT:", "true" if all(wrong) else "false", "-", reason)
