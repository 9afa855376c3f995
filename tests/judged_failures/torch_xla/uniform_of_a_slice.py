"""On XLA, uniform_ of the middle slice of a tensor writes only this slice. But storage_offset() of the slice
is 0, because XLA stores no strides or offsets. A check that looks for the slice at offset 0 therefore
mistakes the middle slice for memory outside the slice.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

right, misplaced = [], []
for name in ["float64", "complex64", "float32", "float16"]:
    base = torch.full((3, 5, 5), -96, dtype=getattr(torch, name)).to("xla")
    view = base[1]
    before = base.cpu().clone()
    view.uniform_(0, 1)
    after = base.cpu()
    around = torch.equal(after[0], before[0]) and torch.equal(after[2], before[2])
    drawn = not torch.any(after[1] == before[1])
    hidden = [host.clone() for host in (before, after)]
    for host in hidden:
        host.as_strided(view.shape, view.stride(), view.storage_offset()).zero_()
    misleading = not torch.equal(*hidden)
    print(name, "| offset:", view.storage_offset(), "| first and last slice unchanged:", around, end=" ")
    print("| middle slice drawn:", drawn, "| around the reported place something changes:", misleading)
    right.append(around and drawn)
    misplaced.append(misleading and view.storage_offset() == 0)
reason = "only the slice changes; the device is declared to keep no storage offsets"
print("VERDICT:", "false" if all(right) and all(misplaced) else "true", "-", reason)
