"""``python -m sessions.unused_code``: list functions, methods and classes that no code of the checkout uses.

vulture collects the definitions and the used names, including names that only tests use.
:data:`CALLED_BY_NAME` lists definitions that a framework calls by name.
"""

from __future__ import annotations

import sys
from pathlib import Path

from vulture import Vulture  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[1]
#: Folders whose unused definitions are errors. A definition that only code in ``USERS`` uses is not an error.
CHECKED = ("conformance", "tools", "sessions", "benchmarks", "noxfile.py")
USERS = ("tests", "docs/examples")
KINDS = ("function", "method", "class", "import")
#: Decorators that register a definition. A registered definition is treated as used.
REGISTERING = [
    "@behaviour*",
    "@multi_rank_property*",
    "@nox.session",
    "@*register*",
    "@*trial*",
    "@*program*",
    "@*impl*",
    "@*custom_op*",
    "@torch.library.*",
]
#: Patterns of names that other code than this project's calls: caller -> patterns.
CALLED_BY_NAME: dict[str, list[str]] = {
    "pytest": ["pytest_*", "test_*", "reportinfo"],
    "pytest-xdist's scheduler": ["add_node*", "mark_test_*", "remove_*", "_clone"],
    "ast.NodeVisitor": ["visit_*"],
    "the keywords of conformance/model/schema.py": [
        "_ref",
        "_type",
        "_enum",
        "_const",
        "_maxLength",
        "_minimum",
    ],
    "the keywords of schemas": ["_required", "_additionalProperties", "_items", "_pattern"],
    "torch.autograd.Function": ["setup_context", "forward", "backward", "jvp", "vmap"],
    "torch.nn.Module": [
        *("initialize_parameters", "flatten_parameters", "*_extra_state", "_*_state_dict"),
    ],
    "torch.distributions": ["_log_normalizer"],
    "Python": ["__instancecheck__"],
    "torch.Tensor subclasses": ["__torch_*", "__tensor_*"],
    "pickle": ["reducer_override", "persistent_*", "find_class"],
    "urllib": ["redirect_request", "http_error_*"],
    "a snippet, into which reproduction copies the function": ["check_*"],
    "a child process of a benchmark": ["measure"],
}


def unused_definitions() -> list[str]:
    """Return one line for each unused definition: path, line, kind and name."""
    vulture = Vulture(
        ignore_names=[pattern for patterns in CALLED_BY_NAME.values() for pattern in patterns],
        ignore_decorators=REGISTERING,
    )
    vulture.scavenge([str(ROOT / name) for name in (*CHECKED, *USERS)])
    lines = []
    for item in vulture.get_unused_code(min_confidence=60):
        path = Path(item.filename).relative_to(ROOT)
        if item.typ in KINDS and path.parts[0] in CHECKED and item.name != "_":
            lines.append(f"{path}:{item.first_lineno}: unused {item.typ} {item.name}. Delete it or use it.")
    return lines


def main() -> int:
    """Print the unused definitions. Return 1 if any exist."""
    lines = unused_definitions()
    print("\n".join(lines) or "unused code: nothing to delete")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
