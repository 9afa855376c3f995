"""Map subjects and properties to families. Failures with one cause usually occur in one family."""

from __future__ import annotations

import re

_NAMESPACES = ("fft", "linalg", "special", "signal.windows", "masked", "sparse")
#: Parts of names in torch.nn and torch.nn.functional. Each part denotes one kernel family.
_NN = re.compile(
    r"conv|pool|loss|norm|pad|dropout|attention|embedding|upsample|interpolate|fold|linear|shuffle|rnn|lstm|gru"
    r"|transformer|distance|similarity"
)
_SAME = {"upsample": "interpolate", "lstm": "rnn", "gru": "rnn", "similarity": "distance"}


def operator_family(subject: str) -> str:
    """Return the family of an operator, a module or another subject, such as ``fft``, ``nn conv``, ``index``."""
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
    """Return the family of a property: the part before the first underscore (``compile`` of ``compile_value``).

    A name without an underscore is its own family.
    """
    first, line, _ = name.partition("_")
    return first if line else name
