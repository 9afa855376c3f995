"""The workflow runner behaves like GitHub, so that a workflow that passes on this machine can pass on GitHub."""

from __future__ import annotations

import pytest

HEAD = "on: {workflow_dispatch: {inputs: {word: {type: string, default: none}}}}\npermissions: {}\n"
JOB = "runs-on: ubuntu-24.04\n    timeout-minutes: 5"
PIN = "@" + "a" * 40


def jobs_of_run(runner, jobs, **event):
    runner.workflow("main.yml", HEAD + "jobs:\n" + jobs)
    return runner("main.yml", event)["jobs"]


def job(name, *steps, more=""):
    lines = "".join(f"      - {step}\n" for step in steps)
    return f"  {name}:\n    {JOB}\n{more}    steps:\n{lines}"


def run(script, more=""):
    return f'{{name: x, shell: bash, run: "{script}"{more}}}'


def test_outputs_go_from_steps_to_jobs_to_needs(runner):
    first = job(
        "first",
        run("echo word=a >> $GITHUB_OUTPUT", ", id: one"),
        more="    outputs: {word: '${{ steps.one.outputs.word }}'}\n",
    )
    second = job(
        "second",
        run("test $WORD = a", ", env: {WORD: '${{ needs.first.outputs.word }}'}"),
        more="    needs: first\n",
    )
    assert [job_result["result"] for job_result in jobs_of_run(runner, second + first).values()] == [
        "success",
        "success",
    ]


def test_a_failing_step_stops_the_others_but_those_that_always_run(runner):
    mark = runner.state / "mark"
    jobs = jobs_of_run(
        runner,
        job("one", run("exit 3"), run(f"touch {mark}-no"), run(f"touch {mark}-yes", ", if: always()")),
    )
    assert jobs["one"]["result"] == "failure" and "exit 3" in jobs["one"]["why"]
    assert not mark.with_name("mark-no").exists() and mark.with_name("mark-yes").exists()


@pytest.mark.parametrize(
    ("condition", "result"),
    [
        ("", "skipped"),
        ("    if: inputs.word == 'none'\n", "skipped"),
        ("    if: ${{ !cancelled() }}\n", "success"),
        ("    if: ${{ always() && needs.bad.result == 'failure' }}\n", "success"),
        ("    if: ${{ !cancelled() && needs.bad.result == 'success' }}\n", "skipped"),
    ],
)
def test_conditions_of_a_job_after_one_that_failed(condition, result, runner):
    jobs = job("bad", run("false")) + job("after", run("true"), more=f"    needs: bad\n{condition}")
    assert jobs_of_run(runner, jobs)["after"]["result"] == result


def test_a_matrix_of_outputs_and_one_leg_that_fails(runner):
    plan = job("plan", run("true"), more='    outputs: {cells: \'["a", "b"]\'}\n')
    legs = job(
        "leg",
        run("test $CELL = a", ", env: {CELL: '${{ matrix.cell }}'}"),
        more="    needs: plan\n    strategy: {matrix: {cell: '${{ fromJSON(needs.plan.outputs.cells) }}'}}\n",
    )
    leg_job = jobs_of_run(runner, plan + legs)["leg"]
    assert [leg["result"] for leg in leg_job["legs"]] == ["success", "failure"]
    assert leg_job["result"] == "failure"


def test_no_expression_in_a_script(runner):
    jobs = jobs_of_run(runner, job("one", run("echo ${{ inputs.word }}")))
    assert "expression is inside the script" in jobs["one"]["why"]


def test_artifacts_are_written_once(runner):
    upload = f"{{uses: actions/upload-artifact{PIN}, with: {{name: x, path: a}}}}"
    jobs = jobs_of_run(runner, job("one", run("echo > a"), upload, upload))
    assert "exists already" in jobs["one"]["why"]


def test_actions_are_pinned(runner):
    jobs = jobs_of_run(runner, job("one", "uses: actions/checkout@v7"))
    assert "not pinned" in jobs["one"]["why"]


CALLEE = """on:
  workflow_call:
    inputs: {word: {type: string, required: true}}
    outputs: {back: {value: "${{ jobs.one.outputs.back }}"}}
permissions: {}
jobs:
  one:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    permissions: {issues: write}
    outputs: {back: "${{ steps.one.outputs.back }}"}
    steps:
      - {id: one, shell: bash, env: {WORD: "${{ inputs.word }}"}, run: "echo back=$WORD >> $GITHUB_OUTPUT"}
"""


def calling(input_line="word: a", grant="issues: write"):
    uses = "    uses: $/.github/workflows/callee.yml\n"
    return f"  call:\n{uses}    with: {{{input_line}}}\n    permissions: {{{grant}}}\n"


def test_a_called_workflow(runner):
    runner.workflow("callee.yml", CALLEE)
    jobs = jobs_of_run(runner, calling())
    assert jobs["call"]["outputs"] == {"back": "a"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"grant": "issues: read"}, "asks for issues: write"),
        ({"word": "other: a"}, "has no input other"),
        ({"word": "word: 1"}, "is a number"),
        ({"word": ""}, "needs input word"),
    ],
)
def test_a_call_that_github_would_refuse(changes, says, runner):
    runner.workflow("callee.yml", CALLEE)
    call_job = jobs_of_run(runner, calling(**changes))["call"]
    assert call_job["result"] == "failure" and says in str(call_job)


def test_what_actions_may_do_is_what_the_job_may(runner):
    attest = f"{{uses: actions/attest{PIN}, with: {{subject-path: a}}}}"
    jobs = jobs_of_run(
        runner, job("one", run("echo > a"), attest, more="    permissions: {id-token: write}\n")
    )
    assert "needs attestations: write" in jobs["one"]["why"]


def test_inputs_cannot_become_commands(runner):
    """An input that contains shell syntax is not executed if the workflow passes it through a quoted variable."""
    mark = runner.state / "mark"
    step = "{shell: bash, env: {WORD: '${{ inputs.word }}'}, run: 'echo \"$WORD\" > /dev/null'}"
    jobs = jobs_of_run(
        runner, job("one", step), inputs={"word": f'"; touch {mark}; $(touch {mark}) `touch {mark}`'}
    )
    assert jobs["one"]["result"] == "success" and not mark.exists()
