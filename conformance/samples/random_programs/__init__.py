"""Small programs of operators, views and writes: made from a seed, checked, written as Python, made smaller.

A program is held to bits, so that its numbers are chosen to leave a device no freedom: they are whole, and no
result or partial sum of one exceeds what the dtype (or a product in the precision class ``tf32``) holds
exactly. Nothing is read that memory held before, and no element is written twice by one operator.
"""
