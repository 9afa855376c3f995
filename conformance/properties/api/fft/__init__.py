"""Behaviours of area ``fft``: Fourier transforms."""
