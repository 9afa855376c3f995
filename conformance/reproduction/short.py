"""The short snippet: one call of an operator with its arguments as literals, and what is expected of it."""

from __future__ import annotations

import textwrap
from typing import Any

import torch

from conformance.checking import trees
from conformance.properties.operators import _gradients
from conformance.reproduction.literal import Writer, numbers
from conformance.reproduction.modules import Unwritable
from conformance.reproduction.source import Collector
from conformance.reproduction.tape import Comparison
from conformance.reproduction.whole import REPLACED, Written, import_lines
from conformance.samples.copies import to_host
from conformance.subjects.databases import find, operator_name
from conformance.target.target import Target

_TEMPLATE = '''\
"""{title}

{statement}

{advice}
"""

{imports}

DEVICE = sys.argv[1] if len(sys.argv) > 1 else {device!r}


{code}def call(device):
{body}


{host}{check}
'''

_HOST = '''\
def host(tensor):
    """The values on the CPU, as numbers that can be subtracted."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.cpu().resolve_conj().resolve_neg()
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


'''

_VALUES = """\
expected = {expected}
allowed = {allowed}

print("on the CPU:", {on_cpu})
result = {on_device}
print("expected: ", expected)
print(f"on {{DEVICE}}:", result)
if result.shape != expected.shape:
    print(f"WRONG: the shape is {{list(result.shape)}} where {{list(expected.shape)}} is expected")
    sys.exit(1)
got, want = host(result), host(expected)
difference = (got - want).abs()
good = (difference <= allowed) | (got == want) | (got.isnan() & want.isnan()){overflow}
if not good.all():
    worst = torch.where(good, -1.0, difference.nan_to_num(nan=math.inf) - allowed).argmax()
    print(
        f"WRONG: {{int((~good).sum())}} of {{good.numel()}} elements; element {{int(worst)}} is "
        f"{{got.flatten()[worst].item()!r}} where {{want.flatten()[worst].item()!r}} is expected "
        f"(allowed difference {{allowed.flatten()[worst].item():.3g}})"
    )
    sys.exit(1)
print("ok: every element is within the allowed difference")
"""

_METADATA = """\
def metadata(tensor):
{metadata}


expected = {expected}

print("on the CPU:", metadata({on_cpu}))
found = metadata({on_device})
print("expected: ", expected)
print(f"on {{DEVICE}}:", found)
if found != expected:
    for word, value in expected.items():
        if found[word] != value:
            print(f"WRONG: {{word}} is {{found[word]}} where {{value}} is expected")
    sys.exit(1)
print("ok: the metadata is the expected one")
"""

_ERROR = """\
print("on the CPU:", {on_cpu})
try:
    print(f"on {{DEVICE}}:", {on_device})
    {synchronize}
except Exception as error:
    print(f"WRONG: {{type(error).__name__}} on {{DEVICE}} where the CPU has a result: {{error}}")
    sys.exit(1)
print("ok: there is a result")
"""


def write(target: Target, found: Comparison, *, title: str, statement: str, advice: str) -> Written:
    """The script of one failed comparison; raises :class:`Unwritable` where it has another form."""
    collector = Collector(REPLACED)
    writer = Writer(collector, device="device")
    call = found.call
    body = _body(writer, found)
    on_device, on_cpu = "call(DEVICE)", 'call("cpu")'
    if found.values is not None:
        want, allowed = found.values
        if want.layout is not torch.strided:
            raise Unwritable("what is expected is not strided")
        check = _VALUES.format(
            expected=numbers(want.contiguous()),
            allowed=_number(allowed),
            on_device=on_device,
            on_cpu=on_cpu,
            overflow=_overflow(want, call, found),
        )
        form = "one call, its values held against those expected"
    elif found.metadata is not None:
        check = _METADATA.format(
            metadata=textwrap.indent(_reader(found.metadata), "    "),
            expected=_metadata_words(found.metadata),
            on_device=on_device,
            on_cpu=on_cpu,
        )
        form = "one call, its metadata held against the expected one"
    elif call.error is not None:
        synchronize = "pass" if target.is_cpu else "torch.accelerator.synchronize()"
        check = _ERROR.format(on_device=on_device, on_cpu=on_cpu, synchronize=synchronize)
        form = "one call that raises"
    else:
        raise Unwritable("the failure is none of a single call")
    code = collector.text()
    text = _TEMPLATE.format(
        title=title,
        statement=statement,
        advice=advice,
        imports=import_lines(collector, target, code + body + check),
        device=target.device,
        code=f"{code}\n\n\n" if code else "",
        body=textwrap.indent(body, "    "),
        host=_HOST if "host(" in check else "",
        check=check.strip(),
    )
    return Written(collector.named(text), form)


def _number(allowed: torch.Tensor) -> str:
    """The allowed differences: one number where it is the same for all."""
    if allowed.numel() and bool((allowed == allowed.flatten()[0]).all()):
        return f"torch.full({tuple(allowed.shape)}, {float(allowed.flatten()[0])!r}, dtype=torch.float64)"
    return numbers(allowed.to(torch.float64).contiguous())


def _overflow(want: torch.Tensor, call: Any, found: Comparison) -> str:
    """What is due beyond the range of the result's dtype may come as infinity."""
    value = list(trees.leaves(call.copy.arguments if found.written else call.value))[found.part]
    if not value.is_floating_point():
        return ""
    limit = float(torch.finfo(value.dtype).max)
    return f" | ((got == want.sign() * math.inf) & (want.abs() + allowed > {limit!r}))"


def _reader(words: dict[str, Any]) -> str:
    made = {
        "shape": '"shape": list(tensor.shape)',
        "dtype": '"dtype": tensor.dtype',
        "layout": '"layout": tensor.layout',
        "strides": (
            '"strides": [s for n, s in zip(tensor.shape, tensor.stride()) if n > 1 and tensor.numel() > 0]'
        ),
        "device": '"device": tensor.device.type',
    }
    inner = "\n".join(f"    {made[word]}," for word in words)
    return f"return {{\n{inner}\n}}"


def _metadata_words(words: dict[str, Any]) -> str:
    parts = [
        f"{word!r}: "
        + (
            "torch.device(DEVICE).type"
            if word == "device"
            else value
            if isinstance(value, str)
            else str(value)
        )
        for word, value in words.items()
    ]
    return f"{{{', '.join(parts)}}}"


def _body(writer: Writer, found: Comparison) -> str:
    """The body of ``call``: the arguments, the call, and the part of its result that is compared."""
    call, source = found.call, found.call.source
    writer.share(source.arguments)
    words = [writer.write(source.input), *map(writer.write, source.args)]
    words += [f"{key}={writer.write(value)}" for key, value in source.kwargs.items()]
    spelled = writer.write(call.form)
    head, tail = [], []
    if call.derivative:
        return _derivative(writer, found, spelled, words)
    if found.written:
        leaf = list(trees.leaves(source.arguments))[found.part]
        head.append(_called(spelled, words))
        tail.append(f"return {writer.write(leaf)}")
    else:
        head.append(f"result = {_called(spelled, words)}")
        tail.append(f"return {_path(call.value, found.part)}" if call.error is None else "return result")
    lines = [*writer.statements]
    if call.grad:
        lines += [*head, *tail]
    else:
        lines += ["with torch.no_grad():", *(f"    {line}" for line in head), *tail]
    for place in sorted(source.stays):
        raise Unwritable(f"argument {place} stays on the CPU")
    return "\n".join(lines)


def _called(spelled: str, words: list[str]) -> str:
    """``x.add_(y)`` rather than ``torch.Tensor.add_(x, y)``."""
    if spelled.startswith("torch.Tensor.") and words and not spelled.rpartition(".")[2].startswith("__"):
        return f"{words[0]}.{spelled.rpartition('.')[2]}({', '.join(words[1:])})"
    return f"{spelled}({', '.join(words)})"


def _path(value: Any, part: int, name: str = "result") -> str:
    """The expression for one leaf of a value."""
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        for place, item in enumerate(value):
            count = len(list(trees.leaves(item)))
            if part < count:
                return _path(item, part, f"{name}[{place}]")
            part -= count
    if isinstance(value, dict):
        raise Unwritable("the result is a dictionary")
    return name


def _derivative(writer: Writer, found: Comparison, spelled: str, words: list[str]) -> str:
    """Reverse mode as :func:`conformance.properties.operators._gradients.differentiate` takes it."""
    call, source = found.call, found.call.source
    wrapper = getattr(call.info, "gradcheck_wrapper", None)
    made = _called(spelled, words)
    if wrapper is not None and not _is_plain(wrapper):
        made = f"{writer.write(wrapper)}({', '.join([spelled, *words])})"
    if source.process is not None and not _is_identity(source.process):
        made = f"{writer.write(source.process)}({made})"
    inputs = ", ".join(writer.write(one) for one in _gradients.inputs_of(source))
    reference = _gradients.differentiate(_pristine(call), _pristine(call).op, to_host(source))
    cotangents = [numbers(one.detach().contiguous()) for one in reference.cotangents]
    lines = [
        *writer.statements,
        f"result = {made}",
        "outputs = [one for one in (result if isinstance(result, (tuple, list)) else [result])",
        "           if isinstance(one, torch.Tensor) and one.requires_grad]",
        f"cotangents = [{', '.join(cotangents)}]",
        "cotangents = [one.to(device) for one in cotangents]",
        f"gradients = torch.autograd.grad(outputs, [{inputs}], cotangents, allow_unused=True)",
    ]
    if call.error is None:
        lines.append(f"return gradients[{found.part}]")
    else:
        lines.append("return gradients")
    return "\n".join(lines)


def _pristine(call: Any) -> Any:
    return find("operator", operator_name(call.info)).info


def _is_plain(wrapper: Any) -> bool:
    return getattr(wrapper, "__name__", "") == "<lambda>" and wrapper.__code__.co_varnames[:1] == ("op",)


def _is_identity(process: Any) -> bool:
    return (
        getattr(process, "__name__", "") == "<lambda>"
        and process.__code__.co_code == (lambda x: x).__code__.co_code
    )
