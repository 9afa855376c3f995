"""The operators of ``torch.ops.hpu``: their schemas, and their implementations with torch's operators.

`schemas.txt` lists the operators, and `registration` registers them with torch. Every other module implements
the operators of one subject. See docs/decisions/0014-composite-operators.md.
"""
