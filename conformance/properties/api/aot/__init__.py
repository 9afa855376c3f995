"""Behaviours of area ``aot``: ahead-of-time autograd and tracing."""
