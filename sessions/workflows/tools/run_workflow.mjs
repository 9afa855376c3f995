// Executes a workflow of a repository on this machine, one job after the other, and prints the outcomes of the jobs as
// JSON.
//
//   node run_workflow.mjs --root REPOSITORY --workflow FILE --state FOLDER [--event EVENT.json] [--override USES=PROGRAM]...
//     [--repository OWNER/NAME=FOLDER]...
//
// The repository under test has the name owner/name. --repository names the folders of further repositories whose actions
// the workflow uses. Such a folder serves every commit of its repository.
//
// Emulated: needs, conditions, matrices, outputs, composite actions, called workflows, the files GITHUB_OUTPUT, GITHUB_ENV,
// GITHUB_PATH and GITHUB_STEP_SUMMARY, artifacts, and the rule that a called workflow gets no permission that its caller
// does not have. Not emulated: runners, containers, services, concurrency, secrets, time limits.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { EMULATED_ACTIONS } from "./emulated_actions.mjs";
import { asText, evaluateCondition, expandExpressions } from "./expression.mjs";
import { readAction, readYaml } from "./files.mjs";
import * as permissions from "./permissions.mjs";

const { values: options } = parseArgs({
  options: {
    root: { type: "string" },
    workflow: { type: "string" },
    state: { type: "string" },
    event: { type: "string" },
    override: { type: "string", multiple: true, default: [] },
    repository: { type: "string", multiple: true, default: [] },
  },
});
const root = fs.realpathSync(options.root);
const state = path.resolve(options.state);
const parsePairs = (texts) => new Map(texts.map((text) => text.split(/=(.*)/s).slice(0, 2)));
const overrides = parsePairs(options.override);
const repositories = parsePairs([`owner/name=${root}`, ...options.repository]);
const event = { repository: { default_branch: "main" }, ...(options.event ? JSON.parse(fs.readFileSync(options.event, "utf8")) : {}) };
const github = {
  event_name: event.event_name ?? "workflow_dispatch",
  event,
  repository: "owner/name",
  server_url: `file://${path.join(state, "remote")}`,
  ref: "refs/heads/main",
  ref_name: "main",
  sha: "0".repeat(40),
  run_id: String(event.run_id ?? 1),
  run_attempt: String(event.run_attempt ?? 1),
  workflow: path.basename(options.workflow, ".yml"),
  workflow_ref: `owner/name/${options.workflow}@refs/heads/main`,
  token: "token-of-the-run",
};
const log = [];
let fileNumber = 0;

const logLine = (line) => {
  log.push(line);
  process.stderr.write(`${line}\n`);
};

function createFolder(name) {
  const folder = path.join(state, "work", `${github.run_id}-${github.run_attempt}`, `${++fileNumber}-${name.replace(/[^A-Za-z0-9._-]/g, "-")}`);
  fs.mkdirSync(folder, { recursive: true });
  return folder;
}

/** Return the values that a step assigned in a file such as GITHUB_OUTPUT, by name. The file contains NAME=VALUE lines and
 * NAME<<MARK blocks. */
function readAssignments(file) {
  const assignments = {};
  const lines = fs.readFileSync(file, "utf8").split("\n");
  while (lines.length) {
    const line = lines.shift();
    const block = /^([^=<]+)<<(.+)$/.exec(line);
    if (block) {
      const end = lines.indexOf(block[2]);
      if (end < 0) throw new Error(`the value of ${block[1]} has no end mark ${block[2]}`);
      assignments[block[1]] = lines.splice(0, end + 1).slice(0, -1).join("\n");
    } else if (line.includes("=")) {
      assignments[line.slice(0, line.indexOf("="))] = line.slice(line.indexOf("=") + 1);
    }
  }
  return assignments;
}

/** Run the script of a step. Return whether it succeeded, its outputs and the reason of a failure. */
function runScript(job, scope, step) {
  if (/\$\{\{/.test(step.run)) throw new Error(`an expression is inside the script of step ${step.name}; pass it in env`);
  const files = {};
  for (const name of ["OUTPUT", "ENV", "PATH", "STEP_SUMMARY"]) {
    files[name] = path.join(job.temp, `_${name}_${++fileNumber}`);
    fs.writeFileSync(files[name], "");
  }
  const script = path.join(job.temp, `_script_${++fileNumber}.sh`);
  fs.writeFileSync(script, step.run);
  const contexts = scope.contexts();
  const stepEnv = expandExpressions(step.env ?? {}, contexts);
  const env = {
    ...process.env,
    CI: "true",
    GITHUB_ACTIONS: "true",
    ...Object.fromEntries(Object.entries(github).filter(([, value]) => typeof value === "string").map(([key, value]) => [`GITHUB_${key.toUpperCase()}`, value])),
    GITHUB_TOKEN: undefined,
    GITHUB_WORKSPACE: job.workspace,
    RUNNER_TEMP: job.temp,
    ...Object.fromEntries(Object.entries(files).map(([name, file]) => [`GITHUB_${name}`, file])),
    ...(scope.folder ? { GITHUB_ACTION_PATH: scope.folder } : {}),
    ...Object.fromEntries(Object.entries({ ...job.env, ...stepEnv }).map(([key, value]) => [key, asText(value)])),
    PATH: [...job.path, process.env.PATH].join(":"),
  };
  delete env.GITHUB_TOKEN;
  const bashOptions = step.shell === "bash" ? ["--noprofile", "--norc", "-eo", "pipefail"] : ["-e"];
  const cwd = path.resolve(job.workspace, asText(expandExpressions(step["working-directory"] ?? ".", contexts)));
  const done = spawnSync("bash", [...bashOptions, script], { cwd, env, encoding: "utf8", maxBuffer: 1 << 28 });
  fs.appendFileSync(path.join(state, "log.txt"), `\n## ${job.name}: ${step.name}\n${done.stdout}${done.stderr}\n[${done.status}]\n`);
  Object.assign(job.env, readAssignments(files.ENV));
  job.path.unshift(...fs.readFileSync(files.PATH, "utf8").split("\n").filter(Boolean).reverse());
  job.summary += fs.readFileSync(files.STEP_SUMMARY, "utf8");
  const output = `${done.stdout}${done.stderr}`.trim().split("\n");
  return { ok: done.status === 0, outputs: readAssignments(files.OUTPUT), why: `exit ${done.status}: ${output.slice(-3).join(" | ")}` };
}

/** Return the folder of an action in a repository that is on this machine, or null for any other action. */
function actionFolder(uses, job) {
  if (uses.startsWith("$/")) return path.join(root, uses.slice(2));
  if (uses.startsWith("./")) return path.join(job.workspace, uses);
  const [, repository, inside] = /^([^/@]+\/[^/@]+)\/([^@]+)@[0-9a-f]{40}$/.exec(uses) ?? [];
  return repositories.has(repository) ? path.join(repositories.get(repository), inside) : null;
}

/** Run the action of a step. Return whether it succeeded, its outputs and the reason of a failure. */
function runAction(job, scope, step) {
  const inputs = Object.fromEntries(Object.entries(expandExpressions(step.with ?? {}, scope.contexts())).map(([key, value]) => [key, asText(value)]));
  if (overrides.has(step.uses)) {
    const env = { ...process.env, ...job.env, INPUTS: JSON.stringify(inputs), STATE: state };
    const done = spawnSync(overrides.get(step.uses), [], { cwd: job.workspace, encoding: "utf8", env });
    return { ok: done.status === 0, outputs: JSON.parse(done.stdout.trim() || "{}"), why: done.stderr };
  }
  const folder = actionFolder(step.uses, job);
  if (folder === null) {
    const [name, pin] = step.uses.split("@");
    if (!/^[0-9a-f]{40}$/.test(pin ?? "")) throw new Error(`${step.uses} is not pinned to a commit`);
    if (!(name in EMULATED_ACTIONS)) throw new Error(`${name} is not emulated; pass --override ${step.uses}=PROGRAM`);
    return { ok: true, outputs: EMULATED_ACTIONS[name]({ state, workspace: job.workspace, permissions: job.permissions, github }, inputs) };
  }
  const definition = readAction(folder);
  for (const name of Object.keys(inputs)) {
    if (!(name in (definition.inputs ?? {}))) throw new Error(`${step.uses} has no input ${name}`);
  }
  const values = {};
  for (const [name, declared] of Object.entries(definition.inputs ?? {})) {
    if (declared.required && !inputs[name]) throw new Error(`${step.uses} needs input ${name}`);
    values[name] = inputs[name] ?? asText(declared.default);
  }
  const actionScope = new ExpressionScope(job, { inputs: values }, folder);
  const ok = runSteps(job, actionScope, definition.runs.steps);
  const outputs = {};
  for (const [name, declared] of Object.entries(definition.outputs ?? {})) outputs[name] = asText(expandExpressions(declared.value, actionScope.contexts()));
  return { ok, outputs, why: actionScope.why };
}

/** The contexts that expressions of a job, or of an action inside the job, can read. */
class ExpressionScope {
  constructor(job, extra, folder = null) {
    Object.assign(this, { job, extra, folder, steps: {}, why: "" });
  }
  contexts() {
    const { job } = this;
    const runner = { temp: job.temp, os: "Linux" };
    return { github: { ...github, action_path: this.folder, workspace: job.workspace }, env: job.env, runner, steps: this.steps, job: { status: "success" }, ...job.contexts, ...this.extra };
  }
}

/** Run the steps of a job or of a composite action. Return whether all succeeded. */
function runSteps(job, scope, list) {
  let ok = true;
  for (const step of list) {
    step.name = asText(expandExpressions(step.name ?? step.uses ?? "run", scope.contexts()));
    const status = { success: ok, failure: !ok, always: true, cancelled: false };
    let outcome = "skipped";
    let outputs = {};
    if (evaluateCondition(step.if, scope.contexts(), status)) {
      let done;
      try {
        done = step.uses ? runAction(job, scope, step) : runScript(job, scope, step);
      } catch (error) {
        done = { ok: false, outputs: {}, why: error.message };
      }
      outcome = done.ok ? "success" : "failure";
      outputs = done.outputs;
      if (!done.ok) {
        scope.why = `${step.name}: ${done.why}`;
        logLine(`${job.name}: step "${step.name}" failed: ${done.why}`);
      }
    }
    const ignored = outcome === "failure" && String(expandExpressions(step["continue-on-error"] ?? false, scope.contexts())) === "true";
    const conclusion = ignored ? "success" : outcome;
    if (step.id) scope.steps[step.id] = { outputs, outcome, conclusion };
    if (conclusion === "failure") ok = false;
  }
  return ok;
}

/** Return the values of each job of a matrix. */
function matrixCombinations(matrix) {
  const { include = [], exclude = [], ...axes } = matrix;
  let combinations = Object.keys(axes).length ? [{}] : [];
  for (const [name, list] of Object.entries(axes)) combinations = combinations.flatMap((values) => list.map((value) => ({ ...values, [name]: value })));
  return [...combinations, ...include];
}

/** Run a job that has steps. Return its result and outputs. */
function runJobWithSteps(id, job, workflow, contexts, granted) {
  const jobPermissions = permissions.permissionsOfJob(job, workflow);
  permissions.requireGranted(jobPermissions, granted, `job ${id}`);
  const folder = createFolder(id);
  const run = { name: id, permissions: jobPermissions, contexts, env: {}, path: [], summary: "", workspace: path.join(folder, "workspace"), temp: path.join(folder, "temp") };
  fs.mkdirSync(run.workspace);
  fs.mkdirSync(run.temp);
  const scope = new ExpressionScope(run, {});
  run.env = expandExpressions(job.env ?? {}, { ...scope.contexts() });
  if (!expandExpressions(job["runs-on"], scope.contexts())?.length) throw new Error(`job ${id} has no runs-on`);
  if (!job["timeout-minutes"]) throw new Error(`job ${id} has no timeout-minutes`);
  const ok = runSteps(run, scope, structuredClone(job.steps));
  const outputs = {};
  for (const [name, value] of Object.entries(job.outputs ?? {})) outputs[name] = asText(expandExpressions(value, scope.contexts()));
  if (run.summary) fs.appendFileSync(path.join(state, "summary.md"), run.summary);
  return { result: ok ? "success" : "failure", outputs, why: scope.why };
}

/** Run the workflow that a job calls. Return the result, the outputs and the outcomes of the jobs of the workflow. */
function runCalledWorkflow(id, job, workflow, contexts, granted) {
  const jobPermissions = permissions.permissionsOfJob(job, workflow);
  permissions.requireGranted(jobPermissions, granted, `job ${id}`);
  const file = job.uses.replace(/^(\.\/|\$\/)/, "").replace(/^owner\/name\/([^@]+)@[0-9a-f]{40}$/, "$1");
  const callee = readYaml(path.join(root, file));
  const definitions = callee.on.workflow_call.inputs ?? {};
  const passed = expandExpressions(job.with ?? {}, contexts);
  for (const [name, value] of Object.entries(passed)) {
    if (!(name in definitions)) throw new Error(`${file} has no input ${name}`);
    if (typeof value !== definitions[name].type) throw new Error(`input ${name} of ${file} is a ${typeof value}, not a ${definitions[name].type}`);
  }
  const inputs = {};
  for (const [name, declared] of Object.entries(definitions)) {
    if (declared.required && passed[name] === undefined) throw new Error(`${file} needs input ${name}`);
    inputs[name] = passed[name] ?? declared.default ?? "";
  }
  const done = runJobs(callee, inputs, jobPermissions, `${id}/`);
  const outputs = {};
  for (const [name, declared] of Object.entries(callee.on.workflow_call.outputs ?? {})) outputs[name] = asText(expandExpressions(declared.value, { jobs: done, inputs, github }));
  const failed = Object.values(done).some((outcome) => outcome.result === "failure");
  return { result: failed ? "failure" : "success", outputs, jobs: done };
}

/** Run the jobs of a workflow in the order of their needs. Return the outcomes by job. */
function runJobs(workflow, inputs, granted, prefix = "") {
  const done = {};
  const remaining = new Map(Object.entries(workflow.jobs));
  while (remaining.size) {
    const ready = [...remaining].find(([, job]) => [job.needs ?? []].flat().every((name) => name in done));
    if (!ready) throw new Error(`jobs ${[...remaining.keys()].join(", ")} wait for each other`);
    const [id, job] = ready;
    remaining.delete(id);
    const needs = Object.fromEntries([job.needs ?? []].flat().map((name) => [name, { result: done[name].result, outputs: done[name].outputs }]));
    const results = Object.values(needs).map((outcome) => outcome.result);
    const status = { success: results.every((result) => result === "success"), failure: results.includes("failure"), always: true, cancelled: false };
    const contexts = { github, inputs, needs, matrix: {}, strategy: {} };
    if (!evaluateCondition(job.if, contexts, status)) {
      done[id] = { result: "skipped", outputs: {} };
      logLine(`${prefix}${id}: skipped`);
      continue;
    }
    try {
      done[id] = runMatrixOrJob(`${prefix}${id}`, job, workflow, contexts, granted);
    } catch (error) {
      done[id] = { result: "failure", outputs: {}, why: error.message };
    }
    logLine(`${prefix}${id}: ${done[id].result}${done[id].why ? ` (${done[id].why})` : ""}`);
  }
  return done;
}

/** Run a job once, or once for each combination of its matrix. Return the combined outcome. */
function runMatrixOrJob(id, job, workflow, contexts, granted) {
  const runOnce = (values, name) => (job.uses ? runCalledWorkflow : runJobWithSteps)(name, job, workflow, { ...contexts, matrix: values }, granted);
  if (!job.strategy?.matrix) return runOnce({}, id);
  const combinations = matrixCombinations(expandExpressions(job.strategy.matrix, contexts));
  if (!combinations.length || combinations.length > 256) throw new Error(`the matrix of job ${id} has ${combinations.length} combinations; GitHub allows 1 to 256`);
  const outcome = { result: "success", outputs: {}, legs: [] };
  for (const values of combinations) {
    const leg = runOnce(values, `${id} (${Object.values(values).join(", ")})`);
    outcome.legs.push({ matrix: values, ...leg });
    if (leg.result === "failure") outcome.result = "failure";
    for (const [name, value] of Object.entries(leg.outputs)) if (value !== "") outcome.outputs[name] = value;
    logLine(`${id} ${JSON.stringify(values)}: ${leg.result}`);
  }
  return outcome;
}

fs.mkdirSync(state, { recursive: true });
const workflow = readYaml(path.join(root, options.workflow));
const dispatchInputs = workflow.on[github.event_name]?.inputs ?? {};
const inputs = {};
if (github.event_name === "workflow_dispatch") {
  for (const [name, declared] of Object.entries(dispatchInputs)) inputs[name] = event.inputs?.[name] ?? declared.default ?? "";
}
const allPermissions = { contents: "write", issues: "write", actions: "write", attestations: "write", pages: "write", "id-token": "write", packages: "write" };
const done = runJobs(workflow, inputs, allPermissions);
process.stdout.write(`${JSON.stringify({ jobs: done, log }, null, 1)}\n`);
process.exitCode = Object.values(done).some((outcome) => outcome.result === "failure") ? 1 : 0;
