"""Generate ``conformance/plan/levels/mutation_operators.json``, which ``conformance explain`` reads."""

from __future__ import annotations

import json

from tools.mutation import injectors
from tools.mutation.designated_properties import DESIGNATED


def mutation_operators_text() -> str:
    """Return the text of the file: the description and the designated property of each mutation operator."""
    entries = {
        name: {"text": description, "designated": DESIGNATED[name]}
        for name, description in sorted(injectors.MUTATION_OPERATORS.items())
    }
    return json.dumps(entries, indent=1) + "\n"
