"""On XLA, a write to an as_strided view changes other elements than the view reads. This contradicts
PyTorch's page generated/torch.Tensor.fill_.html, which says that every element of the tensor gets the value.
"""

import torch
import torch_xla

DTYPES = "float32 float64 float16 bfloat16 complex64 int8 int16 int32 int64"


def view_of_six_elements(base):
    """Return a view of six elements."""
    return base.as_strided((3, 2), (4, 1), 1)


contradicts = []
for name in DTYPES.split():
    host = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, name)).add(2)
    base = host.to("xla")
    reads_right = torch.equal(view_of_six_elements(base).cpu(), view_of_six_elements(host))
    view = view_of_six_elements(base)
    view.fill_(1)
    torch_xla.sync(wait=True)
    view_of_six_elements(host).fill_(1)
    unwritten = int((view.cpu() != 1).sum())
    wrong = (base.cpu() != host).nonzero().tolist()
    print(f"{name}: reads of the view are right: {reads_right}; after fill_(1), {unwritten} of 6 elements")
    print(f"   of the view are not 1; wrong elements of the base: {wrong}")
    contradicts.append(reads_right and unwritten > 0 and len(wrong) > 0)
base = torch.zeros(2, 3, 4, device="xla")
base.narrow(2, 1, 2).fill_(1)
print("for comparison, narrow on the device writes its", int(base.cpu().sum()), "elements of 12")
print("The page generated/torch.as_strided.html announces an error on a device without strides.")
print("VERDICT:", "true" if all(contradicts) else "false")
