"""Bundles: a zip of two JSON files. Reading one trusts nothing in it: no name, no size, no content."""

from __future__ import annotations

import json
import stat
import zipfile
import zlib
from pathlib import Path
from typing import Any, cast

from conformance.certificate.document import Certificate, canonical
from conformance.errors import UsageError
from conformance.model.records import Document
from conformance.model.schema import Schema, SchemaError
from conformance.results import document

CERTIFICATE = "certificate.json"
RESULTS = "results.json"
#: Most bytes of each file of a bundle, unpacked, and of the bundle itself.
LIMITS = {CERTIFICATE: 4 << 20, RESULTS: 256 << 20}
MAX_BYTES = 64 << 20
_CHUNK = 1 << 20
#: Every bundle of the same results has the same bytes.
_WHEN = (1980, 1, 1, 0, 0, 0)


def write(path: Path, certificate: Certificate, results: Document) -> None:
    """Write a bundle; the file appears whole or not at all. UsageError if the file cannot be written."""
    _certificate(certificate)
    document.checked(results)
    scratch = path.with_name(path.name + ".part")
    try:
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as file:
            for name, data in ((CERTIFICATE, certificate), (RESULTS, results)):
                info = zipfile.ZipInfo(name, _WHEN)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                file.writestr(info, canonical(data))
        scratch.replace(path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise UsageError(f"bundle {path} cannot be written ({reason}); name another file") from None


def read(path: Path) -> tuple[Certificate, Document]:
    """The certificate and the results of a bundle; UsageError if it is not a bundle.

    Nothing is unpacked to disk, and no more is read of a file than its limit, whatever the zip says of it.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(
            f"bundle {path} cannot be read ({error.strerror}); name the file of a bundle"
        ) from None
    if not path.is_file():
        raise UsageError(f"bundle {path} is not a file; name the zip that 'conformance certify -o' wrote")
    if size > MAX_BYTES:
        raise UsageError(f"bundle {path} has {size} bytes; at most {MAX_BYTES} are read")
    try:
        with zipfile.ZipFile(path) as file:
            members = _members(path, file)
            certificate_data = _json(path, file, members[CERTIFICATE])
            results_data = _json(path, file, members[RESULTS])
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise UsageError(f"bundle {path} is no sound zip: {error}; ask for it again") from None
    name = CERTIFICATE
    try:
        certificate = _certificate(certificate_data)
        name = RESULTS
        results = document.checked(results_data)
    except (SchemaError, RecursionError) as error:
        wrong = str(error).removeprefix(": ")  # of the document as a whole
        raise UsageError(f"{name} of bundle {path} does not follow its schema: {wrong}") from None
    return certificate, results


def _certificate(data: object) -> Certificate:
    """Return a parsed certificate; SchemaError names the first deviation from the schema."""
    Schema.load("certificate").validate(data)
    return cast("Certificate", data)


def _members(path: Path, file: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The two files of a bundle; UsageError for any other, for one that is there twice, or no plain file."""
    members: dict[str, zipfile.ZipInfo] = {}
    infos = file.infolist()
    for info in infos[:8]:
        name = info.filename
        if name not in LIMITS:
            raise UsageError(
                f"bundle {path} holds {name[:100]!r}; it may hold {CERTIFICATE} and {RESULTS} alone"
            )
        if name in members:
            raise UsageError(f"bundle {path} holds {name} twice; ask for it again")
        mode = info.external_attr >> 16
        if info.flag_bits & 1 or (mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode)):
            raise UsageError(f"{name} of bundle {path} is encrypted or no plain file; ask for it again")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UsageError(f"{name} of bundle {path} is packed in a way that is not read; ask for it again")
        if info.file_size > LIMITS[name]:
            raise UsageError(
                f"{name} of bundle {path} has {info.file_size} bytes; at most {LIMITS[name]} are read"
            )
        members[name] = info
    for name in LIMITS:
        if name not in members:
            raise UsageError(f"bundle {path} lacks {name}; name the zip that 'conformance certify -o' wrote")
    return members


def _json(path: Path, file: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    limit = LIMITS[info.filename]
    parts: list[bytes] = []
    total = 0
    with file.open(info) as stream:
        while chunk := stream.read(_CHUNK):
            total += len(chunk)
            if total > limit:
                raise UsageError(f"{info.filename} of bundle {path} unpacks to more than {limit} bytes")
            parts.append(chunk)
    try:
        return json.loads(b"".join(parts), parse_constant=_refuse, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{info.filename} of bundle {path} is not JSON: {error}") from None


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not a number in JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    """A JSON object; ValueError if a key appears twice, since readers differ in which value they take."""
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("an object has one key twice")
    return table
