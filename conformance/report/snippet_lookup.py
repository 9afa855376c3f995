"""Name and read the snippets in the output folder of a run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from conformance.model.records import Leg, ResultRow

#: The folder of the snippets in the output folder of a run.
FOLDER = "snippets"
#: The maximum size in bytes of a snippet that is read.
MOST = 1 << 16
_NAME = 80


def snippet_path(folder: Path, leg: Leg, row: ResultRow) -> Path:
    """Return the file of the snippet of a result.

    The file name contains a digest of the leg, the result and its failures. A result that fails differently,
    or in a different run, has a different file, so a snippet is never displayed with a different failure.
    """
    about = [leg["mode"], leg["started"], leg["torch"], row["id"], row.get("failures", [])]
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
    name = re.sub(r"[^A-Za-z0-9_.@-]", "_", f"{leg['mode']}-{row['id']}")[:_NAME]
    return folder / FOLDER / f"{name}-{digest}.py"


def read_snippet(folders: Iterable[Path], leg: Leg, row: ResultRow) -> str | None:
    """Return the snippet of a result from the first folder that has it, or None.

    Output folders are untrusted: only regular files of at most ``MOST`` bytes are read, no links.
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
