"""Properties of overloads: requirements on single functions of ``torch.ops``, in each of their call forms."""
