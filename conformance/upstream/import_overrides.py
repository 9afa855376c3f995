"""Read ``DecorateInfo`` decorators from a Python file, for example an exported file, without executing the
file.

The reader accepts every dictionary from names of entries to lists of ``DecorateInfo(...)``, and the constants
at the top level of the file. The reader ignores everything else. For a decorator that the reader does
not understand, the list has a problem with the line number.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping

from conformance.errors import UsageError
from conformance.upstream.exported_deviations import one_line
from conformance.upstream.matching_tests import UpstreamMethod, covering_properties
from conformance.upstream.upstream_list import ListedTest, Listing

_FIELDS = ("decorators", "cls_name", "test_name")


class _UnreadableDecorator(Exception):
    """A decorator that the reader does not understand."""


def read_overrides(text: str, name: str, device: str) -> Listing:
    """Return the decorated tests of a file for a device.

    Args:
        text: the text of the file.
        name: the name of the file, for messages.
        device: the device; a decorator for a different device becomes a problem.

    Raises:
        UsageError: the file is not Python, or has no decorator.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        calls = [(subject, call) for subject, call in _decorator_calls(tree) if _is_decorator(call)]
        constants = _constants(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise UsageError(
            f"list {name} is not a Python file ({reason}); give a Python file, or a text file with tests"
        ) from None
    if not calls:
        raise UsageError(f"list {name} contains no DecorateInfo for an entry; choose another file")
    methods_by_name = {(test.owner, test.name): test for test in covering_properties()}
    entries, problems = [], []
    for subject, call in calls:
        try:
            entries.append(_listed_test(subject, call, constants, methods_by_name, device))
        except _UnreadableDecorator as error:
            problems.append(f"{name}:{call.lineno}: {one_line(subject)}: {error}")
    return Listing(tuple(entries), tuple(problems), _kinds_by_result(tree))


def _decorator_calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    parts = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
                    yield from ((key.value, part) for part in parts if isinstance(part, ast.Call))


def _is_decorator(call: ast.Call) -> bool:
    return ast.unparse(call.func).split(".")[-1] == "DecorateInfo"


def _constants(tree: ast.Module) -> dict[str, object]:
    """Return the top-level constants of the file by name. A list or tuple of texts is a tuple of texts."""
    constants: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            value: object = None
            if isinstance(node.value, ast.Constant):
                value = node.value.value
            elif isinstance(node.value, (ast.List, ast.Tuple)):
                texts = [_text_of(part, constants) for part in node.value.elts]
                value = None if None in texts else tuple(texts)
            for target in node.targets:
                if isinstance(target, ast.Name):
                    constants[target.id] = value
    return constants


def _kinds_by_result(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """Return the failure kinds by result id from ``RESULTS``, which exported files contain."""
    kinds_by_id: dict[str, tuple[str, ...]] = {}
    for node in tree.body:
        names = [ast.unparse(target) for target in node.targets] if isinstance(node, ast.Assign) else []
        if "RESULTS" not in names or not isinstance(node, ast.Assign):
            continue
        try:
            value = ast.literal_eval(node.value)
            kinds_by_id.update({str(key): tuple(map(str, kinds)) for key, (_, kinds, _) in value.items()})
        except (ValueError, TypeError, AttributeError, MemoryError, RecursionError):
            continue
    return kinds_by_id


def _listed_test(
    subject: str,
    call: ast.Call,
    constants: Mapping[str, object],
    methods_by_name: Mapping[tuple[str, str], UpstreamMethod],
    device: str,
) -> ListedTest:
    if not re.fullmatch(r"\w+(\.\w+)*", subject):
        raise _UnreadableDecorator("the key is not the name of a database entry")
    arguments: dict[str, ast.expr] = dict(zip(_FIELDS, call.args, strict=False))
    arguments |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    owner, name = (_text_of(arguments.get(field), constants) for field in ("cls_name", "test_name"))
    if owner is None or name is None:
        raise _UnreadableDecorator(
            "the decorator has no class or no test name, so it applies to several tests"
        )
    if "active_if" in arguments:
        raise _UnreadableDecorator(
            "the decorator has a condition (active_if), which this reader does not evaluate"
        )
    devices = _device_types(arguments.get("device_type"), constants)
    if devices is not None and not {device, "privateuse1"} & set(devices):
        raise _UnreadableDecorator(f"the decorator is for device {', '.join(devices)!r}, not {device!r}")
    test = methods_by_name.get((owner, name))
    if test is None:
        raise _UnreadableDecorator(f"no property of database entries covers the upstream test {owner}.{name}")
    decorators = arguments.get("decorators")
    return ListedTest(
        call.lineno, test, subject, _dtypes_of(arguments.get("dtypes")), _skip_reason(decorators, constants)
    )


def _text_of(node: ast.expr | None, constants: Mapping[str, object]) -> str | None:
    value: object = None
    if isinstance(node, ast.Constant):
        value = node.value
    elif isinstance(node, ast.Name):
        value = constants.get(node.id)
    return value if isinstance(value, str) else None


def _device_types(node: ast.expr | None, constants: Mapping[str, object]) -> tuple[str, ...] | None:
    """Return the devices that ``device_type`` names, or None for all devices.

    torch 2.14 and later accept a list or tuple of devices.
    """
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return None
    if isinstance(node, (ast.List, ast.Tuple)):
        devices = tuple(_text_of(part, constants) or "" for part in node.elts)
    else:
        value = constants.get(node.id) if isinstance(node, ast.Name) else None
        devices = value if isinstance(value, tuple) else (_text_of(node, constants) or "",)
    if not all(devices):
        raise _UnreadableDecorator(
            f"the decorator's device_type is {ast.unparse(node)[:80]!r}, not a text or a list of texts"
        )
    return devices


def _dtypes_of(node: ast.expr | None) -> tuple[str, ...]:
    if node is None or (isinstance(node, ast.Constant) and node.value is None):
        return ()
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else []
    names = [ast.unparse(part) for part in parts]
    if not names or not all(re.fullmatch(r"torch\.\w+", name) for name in names):
        raise _UnreadableDecorator(
            f"the decorator's dtypes are {ast.unparse(node)[:80]!r}, not a tuple, list or set of torch dtypes"
        )
    return tuple(name.removeprefix("torch.") for name in names)


def _skip_reason(node: ast.expr | None, constants: Mapping[str, object]) -> str:
    """Return the reason of a skip decorator; empty for an expected failure. Raise _UnreadableDecorator for
    other decorators.
    """
    nodes = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    decorator_names = [
        ast.unparse(each.func if isinstance(each, ast.Call) else each) for each in nodes if each is not None
    ]
    if len(decorator_names) != 1 or decorator_names[0].split(".")[-1] not in (
        "expectedFailure",
        "skip",
        "xfail",
    ):
        raise _UnreadableDecorator(
            f"the decorator is neither an expected failure nor a skip ({', '.join(decorator_names)[:80]})"
        )
    (each,) = nodes
    arguments = each.args if isinstance(each, ast.Call) else []
    return (_text_of(arguments[0], constants) or "") if arguments else ""
