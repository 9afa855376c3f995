"""Scripts beside the results of a run, each of which shows one failure with torch and the backend alone."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from conformance.model.records import Leg, ResultRow

#: The folder of the scripts in the output folder of a run.
FOLDER = "snippets"
#: Bytes from which on a script is no reading for people.
MOST = 1 << 16
_NAME = 80


def snippet_path(folder: Path, leg: Leg, row: ResultRow) -> Path:
    """Return the file for the script of a result.

    Its name has a digest of the leg, the result and its failures: a result that fails in another way, or in
    another run, has another file, so no script is ever shown beside a failure that it was not made for.
    """
    about = [leg["mode"], leg["started"], leg["torch"], row["id"], row.get("failures", [])]
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
    name = re.sub(r"[^A-Za-z0-9_.@-]", "_", f"{leg['mode']}-{row['id']}")[:_NAME]
    return folder / FOLDER / f"{name}-{digest}.py"


def read_snippet(folders: Iterable[Path], leg: Leg, row: ResultRow) -> str | None:
    """Return the script of a result from the first of some folders that has it; None if there is none.

    Folders of results come from anywhere: only a regular file of a few pages is read.
    """
    for folder in folders:
        try:
            descriptor = os.open(snippet_path(folder, leg, row), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                continue
            data = file.read(MOST + 1)
        if len(data) <= MOST:
            return data.decode(errors="replace")
    return None
