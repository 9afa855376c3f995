"""Text of ``conformance/plan/levels/mutation_operators.json``, which ``conformance explain`` reads."""

from __future__ import annotations

import json

from tools.mutation import injectors
from tools.mutation.designated_properties import DESIGNATED


def text() -> str:
    """Return the file's text: by mutation operator its description and its designated property."""
    entries = {
        name: {"text": description, "designated": DESIGNATED[name]}
        for name, description in sorted(injectors.KINDS.items())
    }
    return json.dumps(entries, indent=1) + "\n"
