"""Write the snippet of a random program. It runs the program on the device in the mode of the result and on
the CPU, and compares them.
"""

from __future__ import annotations

import textwrap

from conformance.reproduction import program_checks, script
from conformance.reproduction.inline_source import DefinitionCollector
from conformance.reproduction.module_ast import NotWritableAsSource
from conformance.reproduction.rerun import RerunTrial
from conformance.reproduction.script import REPLACED, Script
from conformance.samples.random_programs.program import Program
from conformance.target.target import Target

_MAIN = """\
def inputs(device, turn):
    return [tensor.to(device) for tensor in {inputs}[turn]]


def program({names}):
{body}


def check(found, turn):
    due = program(*inputs("cpu", turn))
    {check}(found, due)


{run}"""

_PLAIN = "check(program(*inputs(DEVICE, 0)), 0)"
_LAZY = """\
program(*inputs(DEVICE, 0))  # the device compiles each call in the first run
{mark_step}()
check(program(*inputs(DEVICE, 0)), 0)"""
_COMPILED = """\
# On the CPU the program runs without compilation.
call = program if DEVICE.type == "cpu" else torch.compile(program, {words}, fullgraph=True)
for turn in (0, 1):
    check(call(*inputs(DEVICE, turn)), turn)"""
_REPLAYED = """\
program(*inputs(DEVICE, 0))
given = inputs(DEVICE, 0)
if DEVICE.type == "cpu":
    check(program(*given), 0)
    sys.exit(0)
graph, stream = {graph}(), torch.Stream(device=DEVICE)
torch.accelerator.synchronize()
torch.accelerator.set_stream(stream)
graph.capture_begin()
found = program(*given)
graph.capture_end()
torch.accelerator.synchronize()
for turn in (1, 2):
    for tensor, data in zip(given, inputs("cpu", turn)):
        tensor.copy_(data)
    torch.accelerator.synchronize()
    graph.replay()
    torch.accelerator.synchronize()
    check(found, turn)"""


def write_program_snippet(trial: RerunTrial, program: Program, *, advice: str) -> Script:
    """Return the script of a program that fails.

    Raise :class:`~conformance.reproduction.module_ast.NotWritableAsSource` if the device lacks a required
    feature.
    """
    target = trial.target
    if target.mode == "graph" and not (target.capable("streams") and target.capable("asynchronous")):
        raise NotWritableAsSource(
            "the short form for mode graph captures on a stream and needs the capabilities streams and "
            "asynchronous"
        )
    collector = DefinitionCollector(REPLACED)
    collector.reserve_name((program_checks.__name__, "DEVICE"), "DEVICE")
    marks = program.steps_with_mark() if trial.entry.modes == ("lazy",) else ()
    lines = [*program.step_lines(marks), f"return [{', '.join(program.names)}]"]
    hook_name = {"lazy": "mark_step", "graph": "graph"}.get(target.mode, "")
    imported, hook = _hook_expression(target, hook_name) if hook_name else ("", "")
    body = "\n".join(lines).replace("mark_step()", f"{hook}()")
    compile_arguments = f"backend={target.compile_backend!r}"
    if target.compile_options:
        compile_arguments += f", options={target.compile_options!r}"
    run = {
        "eager": lambda: _PLAIN,
        "lazy": lambda: _LAZY.format(mark_step=hook),
        "compile": lambda: _COMPILED.format(words=compile_arguments),
        "graph": lambda: _REPLAYED.format(graph=hook),
    }[target.mode]()
    main = imported + _MAIN.format(
        inputs=_inputs_text(program, {"compile": 2, "graph": 3}.get(target.mode, 1)),
        names=", ".join(program.names[: len(program.input_specs)]),
        body=textwrap.indent(body, "    "),
        check=collector.add_definition(program_checks.__name__, "check_registers"),
        run=run,
    )
    return script.write_script(
        trial, collector, [], main, form="one program, compared with the CPU", advice=advice
    )


def _inputs_text(program: Program, turns: int) -> str:
    """Return the text of a list with the input tensors of each turn.

    A turn is one run of the program. Each turn has inputs with different numbers.
    """
    rows = [
        ", ".join(f"torch.tensor({x.tolist()}, dtype={x.dtype})" for x in program.inputs(turn))
        for turn in range(turns)
    ]
    return "[" + ", ".join(f"[{row}]" for row in rows) + "]"


def _hook_expression(target: Target, hook_name: str) -> tuple[str, str]:
    """Return the import that a hook of the target file needs, and the expression for the hook."""
    if hook_name not in target.hooks:
        if hook_name == "graph":
            return "", "torch.accelerator.Graph"
        raise NotWritableAsSource(f"the target has no hook {hook_name}")
    module, _, attribute = target.hooks[hook_name].partition(":")
    imported = "" if module == target.module else f"import {module}\n\n\n"
    return imported, f"{module}.{attribute}"
