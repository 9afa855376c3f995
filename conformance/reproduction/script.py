"""Assemble the scripts of all snippets, and run them in separate processes."""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from conformance.process_control import supervisor
from conformance.process_control.child import EndKind
from conformance.reproduction.dead_code import needed_statements
from conformance.reproduction.inline_source import DefinitionCollector, statements_text
from conformance.reproduction.module_ast import Place
from conformance.reproduction.rerun import RerunTrial
from conformance.reproduction.snippet_data import STANDINS

#: The time limit in seconds for one run of a snippet.
TIMEOUT_SECONDS = 120.0

#: Definitions of the suite that snippets replace by a shorter definition of the snippet runtime.
_REPLACED = {
    "framework.recorder": ("Recorder",),
    "framework.tolerances": ("rule",),
    "samples.operators": ("samples_of", "reference_samples_of"),
    "samples.recorded_calls": ("calls_of",),
    "properties.overloads._calls_of_unchecked_overloads": ("larger_and_empty_calls",),
    "properties.overloads._one_argument_pairs": ("recorded_and_similar_calls",),
    "samples.random_programs.generator": ("programs_of",),
    "samples.modules": ("module_samples",),
    "samples.optimizers": ("optimizer_samples",),
    "samples.sample_limit": ("limit",),
    "subjects.torch_databases": ("find",),
    "device.process_state": ("seed",),
    "oracle.reference": ("announce_digest",),
    "oracle.graph_replay_inputs": ("other_samples",),
    "properties.mode_exclusions": ("exclusion_reasons",),
    "properties.operators.dtypes": ("first_samples_by_dtype",),
    "behaviours.observation": ("numpy",),
    "torch_testing_internals": (
        "preserved_rng", "seeded", "error_inputs", "module_error_inputs", "optimizer_error_inputs",
        "backward_dtypes", "forward_dtypes", "composite_checks", "op_db", "foreach_db",
    ),
}  # fmt: skip
REPLACED: dict[Place, Place] = {
    (f"conformance.{module}", name): (STANDINS, name) for module, names in _REPLACED.items() for name in names
}

#: Runs a script in a process that cannot import the suite.
_RUN_WITHOUT_SUITE = """
import runpy, sys
from conformance.process_control import exit_with_parent
exit_with_parent.exit_with_parent()
for name in [*(name for name in sys.modules if name.split(".")[0] == "conformance"), "expecttest"]:
    sys.modules[name] = None
path = sys.argv[1]
sys.argv = sys.argv[1:]
runpy.run_path(path, run_name="__main__")
"""

_TEMPLATE = '''\
"""{title}

{statement}

{advice}
"""

from __future__ import annotations

{imports}

DEVICE = torch.device(sys.argv[1] if len(sys.argv) > 1 else {device!r})


{code}


{main}
'''


@dataclasses.dataclass
class Script:
    """The text of a snippet, and a description of its form."""

    text: str
    form: str


def title_of(trial: RerunTrial) -> str:
    """Return the first line of a snippet: the result and the target."""
    name = trial.target.name.replace("\\", "/").replace('"', "'")
    return f"{trial.id} on target {name}, mode {trial.target.mode}"


def write_script(
    trial: RerunTrial,
    collector: DefinitionCollector,
    statements: Sequence[str],
    main: str,
    *,
    form: str,
    advice: str,
) -> Script:
    """Return the script that runs ``main``, with the definitions and ``statements`` that it needs."""
    nodes = [*collector.nodes, *ast.parse("\n".join(statements)).body]
    code = statements_text(needed_statements(nodes, main))
    text = _TEMPLATE.format(
        title=title_of(trial),
        statement=trial.entry.statement,
        advice=advice,
        imports=_import_lines(collector, trial.target.module, f"{code}\n{main}"),
        device=trial.target.device,
        code=code,
        main=main,
    )
    return Script(collector.with_readable_names(text), form)


def _import_lines(collector: DefinitionCollector, backend: str | None, text: str) -> str:
    """Return the import lines of a script: the imports that its code uses, then the import of the backend."""
    lines = {f"import {name}" for name in ("base64", "math", "zlib", "contextlib", "io")} | collector.imports
    used = {"import sys", "import torch"}
    for line in lines - {"from __future__ import annotations"}:
        name = line.split(" as ")[-1].split("import ")[-1].strip().split(".")[0]
        if re.search(rf"\b{name}\b", text):
            used.add(line)
    standard = sorted(line for line in used if not re.match(r"(import|from) torch\b", line))
    torchs = sorted(used - set(standard), key=lambda line: (line != "import torch", line))
    # The backend registers its device with torch, so it is imported after torch.
    return "\n".join([*standard, *torchs, *([f"import {backend}"] if backend else [])])


def run_script(
    text: str, seconds: float = TIMEOUT_SECONDS, arguments: Sequence[str] = ()
) -> tuple[int | None, str]:
    """Run a script in a process that cannot import the suite, and return its exit code and its output.

    The exit code is None after a timeout.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snippet.py"
        path.write_text(text)
        command = [sys.executable, "-W", "ignore", "-c", _RUN_WITHOUT_SUITE, str(path), *arguments]
        log = Path(folder) / "log.txt"
        end = supervisor.run_command(command, log=log, limit=seconds)
        if end.how is EndKind.TIMED_OUT:
            return None, ""
        return end.code, log.read_text(errors="replace")
