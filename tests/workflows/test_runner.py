"""The workflow runner behaves like GitHub. Therefore a workflow that passes on this machine can pass on
GitHub.
"""

from __future__ import annotations

import pytest

HEAD = "on: {workflow_dispatch: {inputs: {word: {type: string, default: none}}}}\npermissions: {}\n"
JOB = "runs-on: ubuntu-24.04\n    timeout-minutes: 5"
PIN = "@" + "a" * 40


def jobs_of_run(runner, jobs, **event):
    runner.write_workflow("main.yml", HEAD + "jobs:\n" + jobs)
    return runner("main.yml", event)["jobs"]


def job_yaml(name, *steps, more=""):
    lines = "".join(f"      - {step}\n" for step in steps)
    return f"  {name}:\n    {JOB}\n{more}    steps:\n{lines}"


def run_step_yaml(script, more=""):
    return f'{{name: x, shell: bash, run: "{script}"{more}}}'


def test_outputs_go_from_steps_to_jobs_to_needs(runner):
    first = job_yaml(
        "first",
        run_step_yaml("echo word=a >> $GITHUB_OUTPUT", ", id: one"),
        more="    outputs: {word: '${{ steps.one.outputs.word }}'}\n",
    )
    second = job_yaml(
        "second",
        run_step_yaml("test $WORD = a", ", env: {WORD: '${{ needs.first.outputs.word }}'}"),
        more="    needs: first\n",
    )
    assert [job_result["result"] for job_result in jobs_of_run(runner, second + first).values()] == [
        "success",
        "success",
    ]


def test_a_failing_step_skips_later_steps_except_always(runner):
    mark = runner.state / "mark"
    jobs = jobs_of_run(
        runner,
        job_yaml(
            "one",
            run_step_yaml("exit 3"),
            run_step_yaml(f"touch {mark}-no"),
            run_step_yaml(f"touch {mark}-yes", ", if: always()"),
        ),
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
def test_conditions_of_a_job_after_a_failed_job(condition, result, runner):
    jobs = job_yaml("bad", run_step_yaml("false")) + job_yaml(
        "after", run_step_yaml("true"), more=f"    needs: bad\n{condition}"
    )
    assert jobs_of_run(runner, jobs)["after"]["result"] == result


def test_a_matrix_from_outputs_with_one_failing_leg(runner):
    plan = job_yaml("plan", run_step_yaml("true"), more='    outputs: {cells: \'["a", "b"]\'}\n')
    legs = job_yaml(
        "leg",
        run_step_yaml("test $CELL = a", ", env: {CELL: '${{ matrix.cell }}'}"),
        more="    needs: plan\n    strategy: {matrix: {cell: '${{ fromJSON(needs.plan.outputs.cells) }}'}}\n",
    )
    leg_job = jobs_of_run(runner, plan + legs)["leg"]
    assert [leg["result"] for leg in leg_job["legs"]] == ["success", "failure"]
    assert leg_job["result"] == "failure"


def test_an_expression_inside_a_script_is_an_error(runner):
    jobs = jobs_of_run(runner, job_yaml("one", run_step_yaml("echo ${{ inputs.word }}")))
    assert "expression is inside the script" in jobs["one"]["why"]


def test_an_artifact_cannot_be_uploaded_twice(runner):
    upload = f"{{uses: actions/upload-artifact{PIN}, with: {{name: x, path: a}}}}"
    jobs = jobs_of_run(runner, job_yaml("one", run_step_yaml("echo > a"), upload, upload))
    assert "exists already" in jobs["one"]["why"]


def test_an_unpinned_action_is_an_error(runner):
    jobs = jobs_of_run(runner, job_yaml("one", "uses: actions/checkout@v7"))
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


def calling_job_yaml(input_line="word: a", grant="issues: write"):
    uses = "    uses: $/.github/workflows/callee.yml\n"
    return f"  call:\n{uses}    with: {{{input_line}}}\n    permissions: {{{grant}}}\n"


def test_a_called_workflow(runner):
    runner.write_workflow("callee.yml", CALLEE)
    jobs = jobs_of_run(runner, calling_job_yaml())
    assert jobs["call"]["outputs"] == {"back": "a"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"grant": "issues: read"}, "asks for issues: write"),
        ({"input_line": "other: a"}, "has no input other"),
        ({"input_line": "word: 1"}, "is a number"),
        ({"input_line": ""}, "needs input word"),
    ],
)
def test_a_workflow_call_that_github_would_reject(changes, says, runner):
    runner.write_workflow("callee.yml", CALLEE)
    call_job = jobs_of_run(runner, calling_job_yaml(**changes))["call"]
    assert call_job["result"] == "failure" and says in str(call_job)


def test_actions_have_only_the_permissions_of_the_job(runner):
    attest = f"{{uses: actions/attest{PIN}, with: {{subject-path: a}}}}"
    jobs = jobs_of_run(
        runner,
        job_yaml("one", run_step_yaml("echo > a"), attest, more="    permissions: {id-token: write}\n"),
    )
    assert "needs attestations: write" in jobs["one"]["why"]


def test_inputs_cannot_become_commands(runner):
    """An input that contains shell syntax is not executed if the workflow passes it through a quoted
    variable.
    """
    mark = runner.state / "mark"
    step = "{shell: bash, env: {WORD: '${{ inputs.word }}'}, run: 'echo \"$WORD\" > /dev/null'}"
    jobs = jobs_of_run(
        runner, job_yaml("one", step), inputs={"word": f'"; touch {mark}; $(touch {mark}) `touch {mark}`'}
    )
    assert jobs["one"]["result"] == "success" and not mark.exists()
