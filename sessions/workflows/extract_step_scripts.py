"""Extract the scripts of workflow steps into files, for shellcheck."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sessions.environments import ROOT

_READ = """
import json, sys, yaml
found = []
for name in sys.argv[1:]:
    data = yaml.safe_load(open(name))
    jobs = data.get("jobs", {}).values()
    steps = [step for job in jobs for step in job.get("steps", [])] + data.get("runs", {}).get("steps", [])
    found += [[name, step["run"]] for step in steps if "run" in step]
print(json.dumps(found))
"""


def extract_scripts(files: Sequence[str], folder: Path) -> list[Path]:
    """Write each script of the workflow steps in ``files`` to its own file. Return the paths.

    Raise ValueError if no step has a script.
    """
    python = next((ROOT / ".nox").glob("workflow-linters-*/bin/python"))
    done = subprocess.run([str(python), "-c", _READ, *files], capture_output=True, text=True, check=True)
    folder.mkdir(parents=True)
    scripts = []
    for number, (name, script) in enumerate(json.loads(done.stdout)):
        path = folder / f"{number}-{Path(name).parent.name}-{Path(name).stem}.sh"
        path.write_text(script)
        scripts.append(path)
    if not scripts:
        raise ValueError("the files have no step with a script")
    return scripts
