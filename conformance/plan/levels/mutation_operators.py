"""Read ``mutation_operators.json``: each mutation operator, and the property that is meant to kill its
mutants.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path

PATH = Path(__file__).with_suffix(".json")


@dataclasses.dataclass(frozen=True)
class MutationOperator:
    """A mutation operator. ``text`` describes the defect. ``designated`` names the property or the API area
    that is meant to detect the defect.
    """

    text: str
    designated: str


@functools.cache
def mutation_operators() -> Mapping[str, MutationOperator]:
    """Return all mutation operators by name."""
    return {name: MutationOperator(**entry) for name, entry in json.loads(PATH.read_text()).items()}
