"""Behaviours of area ``aot``: ahead-of-time autograd (AOTAutograd) and tracing."""
