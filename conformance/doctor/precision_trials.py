"""Find the precision class of a device by small calls whose values differ between the classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

#: The precision classes that have a trial. A device without any of their deviations has the class
#: ``ieee``.
CLASSES = ("tf32", "flush-denormals")


def deviation_from_ieee(precision: str, device: str) -> str:
    """Return a description of the deviation from IEEE arithmetic that a precision class allows, if the device
    shows this deviation.

    Return an empty text if the device does not deviate, or if a call of the trial fails: a failed call says
    nothing about precision.
    """
    try:
        return _DEVIATIONS[precision](device)
    except Exception:
        return ""


def _rounding_of_products(device: str) -> str:
    # A TF32 number has 10 bits after the point, so it cannot represent 1 + 2**-12.
    value = 1 + 2.0**-12
    matrix = torch.full((32, 32), value).to(device)
    product = (matrix @ torch.eye(32).to(device)).cpu()
    rounded = float(product[0, 0])
    return "" if rounded == value else f"a product of float32 matrices rounds {value} to {rounded}"


def _flushed_subnormals(device: str) -> str:
    smallest = torch.finfo(torch.float32).tiny
    quarter = (torch.full((4,), smallest).to(device) * 0.25).cpu().tolist()
    return f"in float32, {smallest:.4g} * 0.25 is 0" if quarter == [0.0] * 4 else ""


_DEVIATIONS: Mapping[str, Callable[[str], str]] = {
    "tf32": _rounding_of_products,
    "flush-denormals": _flushed_subnormals,
}
