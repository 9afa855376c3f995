"""The operators of ``torch.ops.hpu``: their schemas, and what each computes, written with torch's operators.

`schemas` says which operators there are, `registration` hands them to torch, and every other module computes
those of one subject. See docs/decisions/0014-composite-operators.md.
"""
