"""Families of subjects and properties, which one cause has in common."""

from __future__ import annotations

import re

_NAMESPACES = ("fft", "linalg", "special", "signal.windows", "masked", "sparse")
#: Parts of the names in torch.nn and torch.nn.functional that stand for one kernel family each.
_NN = re.compile(
    r"conv|pool|loss|norm|pad|dropout|attention|embedding|upsample|interpolate|fold|linear|shuffle|rnn|lstm|gru"
    r"|transformer|distance|similarity"
)
_SAME = {"upsample": "interpolate", "lstm": "rnn", "gru": "rnn", "similarity": "distance"}


def operator_family(subject: str) -> str:
    """The family of an operator, a module or another subject: ``fft``, ``nn conv``, ``index``, ..."""
    for namespace in _NAMESPACES:
        if subject.startswith(namespace + "."):
            return namespace
    if subject.startswith("nn."):
        match = _NN.search(subject.rpartition(".")[2].lower()) or _NN.search(subject.lower())
        return f"nn {_SAME.get(match.group(), match.group())}" if match else subject.split(".")[-1].lower()
    if subject.startswith("_foreach_"):
        return "_foreach"
    name = subject.strip("_").partition(".")[0]
    return re.sub(r"\d+$", "", name.partition("_")[0]) or subject


def property_family(name: str) -> str:
    """The family of a property: ``compile`` of ``compile_value``; one whose name has no mode is its own."""
    first, line, _ = name.partition("_")
    return first if line else name
