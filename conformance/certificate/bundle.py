"""Write and read bundles: zip files with ``certificate.json`` and ``results.json``.

A bundle is untrusted input. The reader checks the names, the sizes and the contents of its files.
"""

from __future__ import annotations

import json
import stat
import zipfile
import zlib
from pathlib import Path
from typing import Any, cast

from conformance.certificate.document import Certificate, canonical_json
from conformance.errors import UsageError
from conformance.model.records import Document
from conformance.model.schema import Schema, SchemaError
from conformance.results import document

CERTIFICATE = "certificate.json"
RESULTS = "results.json"
#: The maximum size in bytes of each unpacked file, and of the bundle.
LIMITS = {CERTIFICATE: 4 << 20, RESULTS: 256 << 20}
MAX_BYTES = 64 << 20
_CHUNK = 1 << 20
#: The time stamp of all members. It is fixed, so that bundles of equal results have equal bytes.
_WHEN = (1980, 1, 1, 0, 0, 0)


def write_bundle(path: Path, certificate: Certificate, results: Document) -> None:
    """Write a bundle atomically.

    Raise UsageError if the file cannot be written.
    """
    _validated_certificate(certificate)
    document.validated(results)
    scratch = path.with_name(path.name + ".part")
    try:
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED) as file:
            for name, data in ((CERTIFICATE, certificate), (RESULTS, results)):
                info = zipfile.ZipInfo(name, _WHEN)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                file.writestr(info, canonical_json(data))
        scratch.replace(path)
    except OSError as error:
        scratch.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise UsageError(f"bundle {path} cannot be written ({reason}); choose another file") from None


def read_bundle(path: Path) -> tuple[Certificate, Document]:
    """Return the certificate and the results of a bundle.

    Nothing is unpacked to disk. At most ``LIMITS`` bytes of a member are read, even if the zip states a
    smaller size. Raise UsageError if the file is not a valid bundle.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(
            f"bundle {path} cannot be read ({error.strerror}); give the path of a bundle"
        ) from None
    if not path.is_file():
        raise UsageError(
            f"bundle {path} is not a file; give the zip file that 'conformance certify -o' wrote"
        )
    if size > MAX_BYTES:
        raise UsageError(f"bundle {path} has {size} bytes; the maximum is {MAX_BYTES}")
    try:
        with zipfile.ZipFile(path) as file:
            members = _checked_members(path, file)
            certificate_data = _parse_member(path, file, members[CERTIFICATE])
            results_data = _parse_member(path, file, members[RESULTS])
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise UsageError(f"bundle {path} is not a valid zip file: {error}; get the bundle again") from None
    name = CERTIFICATE
    try:
        certificate = _validated_certificate(certificate_data)
        name = RESULTS
        results = document.validated(results_data)
    except (SchemaError, RecursionError) as error:
        wrong = str(error).removeprefix(": ")  # the path of the document itself is empty
        raise UsageError(f"{name} of bundle {path} does not follow its schema: {wrong}") from None
    return certificate, results


def _validated_certificate(data: object) -> Certificate:
    """Return ``data`` as a certificate.

    Raise SchemaError with the first violation of the schema.
    """
    Schema.load("certificate").validate(data)
    return cast("Certificate", data)


def _checked_members(path: Path, file: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the two members of a bundle by name.

    Raise UsageError for an unknown, duplicate, missing, encrypted or too large member, or a member that is
    not a regular file.
    """
    members: dict[str, zipfile.ZipInfo] = {}
    infos = file.infolist()
    for info in infos[:8]:
        name = info.filename
        if name not in LIMITS:
            raise UsageError(
                f"bundle {path} contains {name[:100]!r}; only {CERTIFICATE} and {RESULTS} are allowed"
            )
        if name in members:
            raise UsageError(f"bundle {path} contains {name} twice; get the bundle again")
        mode = info.external_attr >> 16
        if info.flag_bits & 1 or (mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode)):
            raise UsageError(
                f"{name} of bundle {path} is encrypted or not a regular file; get the bundle again"
            )
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UsageError(f"{name} of bundle {path} has an unsupported compression; get the bundle again")
        if info.file_size > LIMITS[name]:
            raise UsageError(
                f"{name} of bundle {path} has {info.file_size} bytes; the maximum is {LIMITS[name]}"
            )
        members[name] = info
    for name in LIMITS:
        if name not in members:
            raise UsageError(
                f"bundle {path} has no {name}; give the zip file that 'conformance certify -o' wrote"
            )
    return members


def _parse_member(path: Path, file: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
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
        return json.loads(
            b"".join(parts), parse_constant=_reject_constant, object_pairs_hook=_object_without_duplicates
        )
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{info.filename} of bundle {path} is not JSON: {error}") from None


def _reject_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number in JSON")


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    """Return the pairs as a JSON object.

    Raise ValueError for a duplicate key, because JSON readers differ in the value that they return for the
    key.
    """
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("an object has a duplicate key")
    return table
