"""Write the snippet of a single call: an operator with its arguments as literals, and the expected result."""

from __future__ import annotations

import textwrap
from typing import Any

import torch

from conformance.framework import trees
from conformance.properties.operators import _gradients
from conformance.reproduction import script, snippet_call_checks
from conformance.reproduction.call_recorder import FailedComparison
from conformance.reproduction.inline_source import DefinitionCollector
from conformance.reproduction.literals import ExpressionWriter, tensor_literal
from conformance.reproduction.module_ast import NotWritableAsSource
from conformance.reproduction.rerun import RerunTrial
from conformance.reproduction.script import REPLACED, Script
from conformance.samples.copies import to_host
from conformance.subjects.torch_databases import find, operator_name
from conformance.target.target import Target


def write_call_snippet(trial: RerunTrial, comparison: FailedComparison, *, advice: str) -> Script:
    """Return the script of a failed comparison.

    Raise :class:`~conformance.reproduction.module_ast.NotWritableAsSource` if the failed check needs more
    than a single call, or if a value cannot be written as source text.
    """
    collector = DefinitionCollector(REPLACED)
    collector.reserve_name((snippet_call_checks.__name__, "DEVICE"), "DEVICE")
    body = _call_body(ExpressionWriter(collector, device="device"), comparison)
    if comparison.values is not None:
        expected, allowed = comparison.values
        if expected.layout is not torch.strided:
            raise NotWritableAsSource("the expected values are not strided")
        form, name = "one call, its values compared with the expected values", "check_values"
        arguments = {
            "expected": tensor_literal(expected.contiguous()),
            "allowed": _allowed_text(allowed),
            "largest": _largest_finite_text(comparison),
        }
    elif comparison.metadata is not None:
        form, name = "one call, its metadata compared with the expected metadata", "check_metadata"
        items = {argument_name: str(value) for argument_name, value in comparison.metadata.items()}
        if "device" in items:
            items["device"] = "DEVICE.type"
        text = ", ".join(f"{argument_name!r}: {value}" for argument_name, value in items.items())
        arguments = {"expected": f"{{{text}}}"}
    elif comparison.call.error is not None:
        form, name = "one call that raises", "check_no_error"
        arguments = {"synchronize": _synchronize_expression(trial.target)}
    else:
        raise NotWritableAsSource("the failure does not concern a single call")
    check = collector.add_definition(snippet_call_checks.__name__, name)
    lines = "".join(
        f"    {argument_name}={text},\n" for argument_name, text in {"call": "call", **arguments}.items()
    )
    main = f"def call(device):\n{textwrap.indent(body, '    ')}\n\n\n{check}(\n{lines})"
    return script.write_script(trial, collector, [], main, form=form, advice=advice)


def _synchronize_expression(target: Target) -> str:
    """Return an expression for a function that waits for the device."""
    if "synchronize" in target.hooks:
        module, _, attribute = target.hooks["synchronize"].partition(":")
        return f"lambda: __import__({module!r}, fromlist=['']).{attribute}()"
    return "torch.accelerator.synchronize" if target.is_known_to_torch_accelerator else "lambda: None"


def _allowed_text(allowed: torch.Tensor) -> str:
    """Return the text of the allowed differences (float64), written once if they are equal for all
    elements.
    """
    first = allowed.flatten()[:1]
    if allowed.numel() and bool((allowed == first).all()):
        return f"torch.full({tuple(allowed.shape)}, {float(first)!r}, dtype=torch.float64)"
    return tensor_literal(allowed.to(torch.float64).contiguous())


def _largest_finite_text(comparison: FailedComparison) -> str:
    """Return the text of the largest finite number of the compared value's dtype. The check accepts infinity
    for larger expected values.
    """
    call = comparison.call
    tree = call.copy.arguments if comparison.written else call.value
    dtype = list(trees.leaves(tree))[comparison.part].dtype
    return repr(float(torch.finfo(dtype).max)) if dtype.is_floating_point else "math.inf"


def _call_body(writer: ExpressionWriter, comparison: FailedComparison) -> str:
    """Return the body of ``call``: the arguments, the call, and the compared part of its result."""
    call, source = comparison.call, comparison.call.source
    if source.cpu_positions:
        raise NotWritableAsSource(f"argument {min(source.cpu_positions)} must be on the CPU")
    writer.register_shared_tensors(source.arguments)
    arguments = [writer.write(source.input), *map(writer.write, source.args)]
    arguments += [f"{key}={writer.write(value)}" for key, value in source.kwargs.items()]
    function = writer.write(call.form)
    if call.info is not None:
        return _gradient_body(writer, comparison, function, arguments)
    if comparison.written:
        lines = [_call_text(function, arguments)]
        result = writer.write(list(trees.leaves(source.arguments))[comparison.part])
    else:
        lines = [f"result = {_call_text(function, arguments)}"]
        result = "result" if call.error is not None else _leaf_expression(call.value, comparison.part)
    if not call.grad:
        lines = ["with torch.no_grad():", *(f"    {line}" for line in lines)]
    return "\n".join([*writer.statements, *lines, f"return {result}"])


def _call_text(function: str, arguments: list[str]) -> str:
    """Return the text of a call, as ``x.add_(y)`` instead of ``torch.Tensor.add_(x, y)``."""
    owner, _, name = function.rpartition(".")
    if owner == "torch.Tensor" and arguments and not name.startswith("__"):
        return f"{arguments[0]}.{name}({', '.join(arguments[1:])})"
    return f"{function}({', '.join(arguments)})"


def _leaf_expression(value: Any, part: int, name: str = "result") -> str:
    """Return the expression for one leaf of a value."""
    if isinstance(value, dict):
        raise NotWritableAsSource("the result is a dictionary")
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        for item_index, item in enumerate(value):
            count = len(list(trees.leaves(item)))
            if part < count:
                return _leaf_expression(item, part, f"{name}[{item_index}]")
            part -= count
    return name


def _gradient_body(
    writer: ExpressionWriter, comparison: FailedComparison, function: str, arguments: list[str]
) -> str:
    """Return the body of ``call`` if the comparison concerns a gradient.

    The body computes the gradient as :func:`conformance.properties.operators._gradients.differentiate` does.
    """
    call, source = comparison.call, comparison.call.source
    wrapper = getattr(call.info, "gradcheck_wrapper", None)
    result = _call_text(function, arguments)
    if wrapper is not None and not _is_lambda_like(wrapper, lambda op, *args, **kwargs: op(*args, **kwargs)):
        result = f"{writer.write(wrapper)}({', '.join([function, *arguments])})"
    if source.process is not None and not _is_lambda_like(source.process, lambda x: x):
        result = f"{writer.write(source.process)}({result})"
    inputs = ", ".join(map(writer.write, _gradients.differentiable_inputs(source)))
    info = find("operator", operator_name(call.info)).info
    reference = _gradients.differentiate(info, info.op, to_host(source))
    cotangents = ", ".join(tensor_literal(tensor.detach().contiguous()) for tensor in reference.cotangents)
    lines = [
        *writer.statements,
        f"result = {result}",
        "results = result if isinstance(result, (tuple, list)) else [result]",
        "outputs = [x for x in results if isinstance(x, torch.Tensor) and x.requires_grad]",
        f"cotangents = [x.to(device) for x in [{cotangents}]]",
        f"gradients = torch.autograd.grad(outputs, [{inputs}], cotangents, allow_unused=True)",
        "return gradients" + (f"[{comparison.part}]" if call.error is None else ""),
    ]
    return "\n".join(lines)


def _is_lambda_like(function: Any, like: Any) -> bool:
    """Return whether a function is a lambda with the same bytecode as ``like``."""
    own = getattr(function, "__name__", "") == "<lambda>"
    return own and function.__code__.co_code == like.__code__.co_code
