"""On XLA, conj returns a tensor without the conjugate bit. Its values are right, and a write to the conjugate
reaches the base. PyTorch's page generated/torch.conj.html describes the bit, which delays the computation.
"""

import torch
import torch_xla  # noqa: F401  (registers the device)

host = torch.tensor([[1 + 2j, 3 - 4j], [5j, 2 + 0j]])
base = host.to("xla")
lazy = base.conj()
bits = (base.is_conj(), lazy.is_conj(), lazy.conj().is_conj(), lazy.imag.is_neg())
print("bits of the base, of conj, of conj twice and of imag:", *bits, "(CPU: False True False True)")
expected = host.conj().resolve_conj()
values = torch.equal(lazy.cpu(), expected) and torch.equal(lazy.conj().cpu(), host)
parts = torch.equal(lazy.imag.cpu(), -host.imag) and torch.equal(lazy.resolve_conj().cpu(), expected)
lazy.fill_(1 + 1j)
written = base.cpu().eq(1 - 1j).all().item()
print("values right:", values, "| imag and resolve_conj right:", parts)
print("a write to the conjugate reaches the base, conjugated:", written)
print("VERDICT:", "false" if values and parts and written else "true")
