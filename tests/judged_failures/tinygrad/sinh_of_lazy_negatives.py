"""On tinygrad, a copy of a lazy negative is an ordinary tensor, so its sinh has the same bits as sinh of an
ordinary tensor. The error that the suite reported is an error of sinh itself and not of lazy negatives.
"""

import extra.torch_backend.backend  # noqa: F401  (registers the device)
import torch

x = torch.tensor([-0.034623026847839355, 2.0])
lazy = torch._neg_view(x.neg())
there = lazy.to("tiny")
print("is_neg on the host:", lazy.is_neg(), "| is_neg of its copy on the device:", there.is_neg())
copied, ordinary = torch.sinh(there).cpu(), torch.sinh(x.to("tiny")).cpu()
same = torch.equal(copied, ordinary)
print(
    "sinh of the copy:", copied.tolist(), "| sinh of the ordinary tensor:", ordinary.tolist(), "| same:", same
)
same_in_place = torch.equal(there.clone().sinh_().cpu(), x.to("tiny").sinh_().cpu())
print("in place, same:", same_in_place)
made_there = torch._neg_view(x.neg().to("tiny"))
print("made on the device: is_neg", made_there.is_neg(), "value", made_there.cpu().tolist(), end=" ")
print("(wrong: the device has no lazy negatives)")
print("VERDICT:", "false" if not there.is_neg() and same and same_in_place else "true")
