// Executes a workflow of a repository on this machine, one job after the other, and prints the outcome of each as JSON.
//
//   node run.mjs --root REPOSITORY --workflow FILE --state FOLDER [--event EVENT.json] [--override USES=PROGRAM]...
//     [--repository OWNER/NAME=FOLDER]...
//
// The repository is owner/name; others are in the folders that --repository names, at any commit they are pinned to.
//
// Imitated: needs, conditions, matrices, outputs, composite actions, called workflows, files of outputs, environment,
// path and summary, artifacts, and that permissions only shrink. Not imitated: runners, containers, services,
// concurrency, secrets, time limits.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { asText, condition, expand } from "./expression.mjs";
import { action, read } from "./files.mjs";
import * as permissions from "./permissions.mjs";
import { PROVIDED } from "./provided.mjs";

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
const pairs = (words) => new Map(words.map((word) => word.split(/=(.*)/s).slice(0, 2)));
const overrides = pairs(options.override);
const repositories = pairs([`owner/name=${root}`, ...options.repository]);
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
let places = 0;

const note = (words) => {
  log.push(words);
  process.stderr.write(`${words}\n`);
};

function fresh(name) {
  const folder = path.join(state, "work", `${github.run_id}-${github.run_attempt}`, `${++places}-${name.replace(/[^A-Za-z0-9._-]/g, "-")}`);
  fs.mkdirSync(folder, { recursive: true });
  return folder;
}

/** A file of commands that a step may have written: NAME=VALUE lines, and NAME<<MARK blocks. */
function assignments(file) {
  const found = {};
  const lines = fs.readFileSync(file, "utf8").split("\n");
  while (lines.length) {
    const line = lines.shift();
    const block = /^([^=<]+)<<(.+)$/.exec(line);
    if (block) {
      const end = lines.indexOf(block[2]);
      if (end < 0) throw new Error(`a value of ${block[1]} has no end`);
      found[block[1]] = lines.splice(0, end + 1).slice(0, -1).join("\n");
    } else if (line.includes("=")) {
      found[line.slice(0, line.indexOf("="))] = line.slice(line.indexOf("=") + 1);
    }
  }
  return found;
}

function shell(job, scope, step) {
  if (/\$\{\{/.test(step.run)) throw new Error(`an expression is inside the script of step ${step.name}`);
  const files = {};
  for (const name of ["OUTPUT", "ENV", "PATH", "STEP_SUMMARY"]) {
    files[name] = path.join(job.temp, `_${name}_${++places}`);
    fs.writeFileSync(files[name], "");
  }
  const script = path.join(job.temp, `_script_${++places}.sh`);
  fs.writeFileSync(script, step.run);
  const contexts = scope.contexts();
  const own = expand(step.env ?? {}, contexts);
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
    ...Object.fromEntries(Object.entries({ ...job.env, ...own }).map(([key, value]) => [key, asText(value)])),
    PATH: [...job.path, process.env.PATH].join(":"),
  };
  delete env.GITHUB_TOKEN;
  const words = step.shell === "bash" ? ["--noprofile", "--norc", "-eo", "pipefail"] : ["-e"];
  const cwd = path.resolve(job.workspace, asText(expand(step["working-directory"] ?? ".", contexts)));
  const done = spawnSync("bash", [...words, script], { cwd, env, encoding: "utf8", maxBuffer: 1 << 28 });
  fs.appendFileSync(path.join(state, "log.txt"), `\n## ${job.name}: ${step.name}\n${done.stdout}${done.stderr}\n[${done.status}]\n`);
  Object.assign(job.env, assignments(files.ENV));
  job.path.unshift(...fs.readFileSync(files.PATH, "utf8").split("\n").filter(Boolean).reverse());
  job.summary += fs.readFileSync(files.STEP_SUMMARY, "utf8");
  const said = `${done.stdout}${done.stderr}`.trim().split("\n");
  return { ok: done.status === 0, outputs: assignments(files.OUTPUT), why: `exit ${done.status}: ${said.slice(-3).join(" | ")}` };
}

/** Where an action of this repository lies; null for somebody else's. */
function folderOf(uses, job) {
  if (uses.startsWith("$/")) return path.join(root, uses.slice(2));
  if (uses.startsWith("./")) return path.join(job.workspace, uses);
  const [, repository, inside] = /^([^/@]+\/[^/@]+)\/([^@]+)@[0-9a-f]{40}$/.exec(uses) ?? [];
  return repositories.has(repository) ? path.join(repositories.get(repository), inside) : null;
}

function use(job, scope, step) {
  const inputs = Object.fromEntries(Object.entries(expand(step.with ?? {}, scope.contexts())).map(([key, value]) => [key, asText(value)]));
  if (overrides.has(step.uses)) {
    const env = { ...process.env, ...job.env, INPUTS: JSON.stringify(inputs), STATE: state };
    const done = spawnSync(overrides.get(step.uses), [], { cwd: job.workspace, encoding: "utf8", env });
    return { ok: done.status === 0, outputs: JSON.parse(done.stdout.trim() || "{}"), why: done.stderr };
  }
  const folder = folderOf(step.uses, job);
  if (folder === null) {
    const [name, pin] = step.uses.split("@");
    if (!/^[0-9a-f]{40}$/.test(pin ?? "")) throw new Error(`${step.uses} is not pinned by commit`);
    if (!(name in PROVIDED)) throw new Error(`nothing here does what ${name} does`);
    return { ok: true, outputs: PROVIDED[name]({ state, workspace: job.workspace, permissions: job.permissions, github }, inputs) };
  }
  const definition = action(folder);
  for (const name of Object.keys(inputs)) {
    if (!(name in (definition.inputs ?? {}))) throw new Error(`${step.uses} has no input ${name}`);
  }
  const values = {};
  for (const [name, known] of Object.entries(definition.inputs ?? {})) {
    if (known.required && !inputs[name]) throw new Error(`${step.uses} needs input ${name}`);
    values[name] = inputs[name] ?? asText(known.default);
  }
  const inner = new Scope(job, { inputs: values }, folder);
  const ok = steps(job, inner, definition.runs.steps);
  const outputs = {};
  for (const [name, known] of Object.entries(definition.outputs ?? {})) outputs[name] = asText(expand(known.value, inner.contexts()));
  return { ok, outputs, why: inner.why };
}

/** What expressions of a job, or of an action within it, can see. */
class Scope {
  constructor(job, extra, folder = null) {
    Object.assign(this, { job, extra, folder, steps: {}, why: "" });
  }
  contexts() {
    const { job } = this;
    const runner = { temp: job.temp, os: "Linux" };
    return { github: { ...github, action_path: this.folder, workspace: job.workspace }, env: job.env, runner, steps: this.steps, job: { status: "success" }, ...job.contexts, ...this.extra };
  }
}

function steps(job, scope, list) {
  let ok = true;
  for (const step of list) {
    step.name = asText(expand(step.name ?? step.uses ?? "run", scope.contexts()));
    const status = { success: ok, failure: !ok, always: true, cancelled: false };
    let outcome = "skipped";
    let outputs = {};
    if (condition(step.if, scope.contexts(), status)) {
      let done;
      try {
        done = step.uses ? use(job, scope, step) : shell(job, scope, step);
      } catch (error) {
        done = { ok: false, outputs: {}, why: error.message };
      }
      outcome = done.ok ? "success" : "failure";
      outputs = done.outputs;
      if (!done.ok) {
        scope.why = `${step.name}: ${done.why}`;
        note(`${job.name}: step "${step.name}" failed: ${done.why}`);
      }
    }
    const forgiven = outcome === "failure" && String(expand(step["continue-on-error"] ?? false, scope.contexts())) === "true";
    const conclusion = forgiven ? "success" : outcome;
    if (step.id) scope.steps[step.id] = { outputs, outcome, conclusion };
    if (conclusion === "failure") ok = false;
  }
  return ok;
}

function combinations(matrix) {
  const { include = [], exclude = [], ...axes } = matrix;
  let found = Object.keys(axes).length ? [{}] : [];
  for (const [name, list] of Object.entries(axes)) found = found.flatMap((one) => list.map((value) => ({ ...one, [name]: value })));
  return [...found, ...include];
}

function oneJob(id, job, workflow, contexts, granted) {
  const mine = permissions.of(job, workflow);
  permissions.within(mine, granted, `job ${id}`);
  const folder = fresh(id);
  const run = { name: id, permissions: mine, contexts, env: {}, path: [], summary: "", workspace: path.join(folder, "workspace"), temp: path.join(folder, "temp") };
  fs.mkdirSync(run.workspace);
  fs.mkdirSync(run.temp);
  const scope = new Scope(run, {});
  run.env = expand(job.env ?? {}, { ...scope.contexts() });
  if (!expand(job["runs-on"], scope.contexts())?.length) throw new Error(`job ${id} names no machine`);
  if (!job["timeout-minutes"]) throw new Error(`job ${id} has no limit of time`);
  const ok = steps(run, scope, structuredClone(job.steps));
  const outputs = {};
  for (const [name, value] of Object.entries(job.outputs ?? {})) outputs[name] = asText(expand(value, scope.contexts()));
  if (run.summary) fs.appendFileSync(path.join(state, "summary.md"), run.summary);
  return { result: ok ? "success" : "failure", outputs, why: scope.why };
}

function called(id, job, workflow, contexts, granted) {
  const mine = permissions.of(job, workflow);
  permissions.within(mine, granted, `job ${id}`);
  const file = job.uses.replace(/^(\.\/|\$\/)/, "").replace(/^owner\/name\/([^@]+)@[0-9a-f]{40}$/, "$1");
  const callee = read(path.join(root, file));
  const definitions = callee.on.workflow_call.inputs ?? {};
  const given = expand(job.with ?? {}, contexts);
  for (const [name, value] of Object.entries(given)) {
    if (!(name in definitions)) throw new Error(`${file} has no input ${name}`);
    if (typeof value !== definitions[name].type) throw new Error(`input ${name} of ${file} is a ${typeof value}`);
  }
  const inputs = {};
  for (const [name, known] of Object.entries(definitions)) {
    if (known.required && given[name] === undefined) throw new Error(`${file} needs input ${name}`);
    inputs[name] = given[name] ?? known.default ?? "";
  }
  const done = jobs(callee, inputs, mine, `${id}/`);
  const outputs = {};
  for (const [name, known] of Object.entries(callee.on.workflow_call.outputs ?? {})) outputs[name] = asText(expand(known.value, { jobs: done, inputs, github }));
  const bad = Object.values(done).some((one) => one.result === "failure");
  return { result: bad ? "failure" : "success", outputs, jobs: done };
}

function jobs(workflow, inputs, granted, prefix = "") {
  const done = {};
  const left = new Map(Object.entries(workflow.jobs));
  while (left.size) {
    const ready = [...left].find(([, job]) => [job.needs ?? []].flat().every((name) => name in done));
    if (!ready) throw new Error(`jobs ${[...left.keys()].join(", ")} wait for each other`);
    const [id, job] = ready;
    left.delete(id);
    const needs = Object.fromEntries([job.needs ?? []].flat().map((name) => [name, { result: done[name].result, outputs: done[name].outputs }]));
    const results = Object.values(needs).map((one) => one.result);
    const status = { success: results.every((one) => one === "success"), failure: results.includes("failure"), always: true, cancelled: false };
    const contexts = { github, inputs, needs, matrix: {}, strategy: {} };
    if (!condition(job.if, contexts, status)) {
      done[id] = { result: "skipped", outputs: {} };
      note(`${prefix}${id}: skipped`);
      continue;
    }
    try {
      done[id] = legs(`${prefix}${id}`, job, workflow, contexts, granted);
    } catch (error) {
      done[id] = { result: "failure", outputs: {}, why: error.message };
    }
    note(`${prefix}${id}: ${done[id].result}${done[id].why ? ` (${done[id].why})` : ""}`);
  }
  return done;
}

function legs(id, job, workflow, contexts, granted) {
  const one = (values, name) => (job.uses ? called : oneJob)(name, job, workflow, { ...contexts, matrix: values }, granted);
  if (!job.strategy?.matrix) return one({}, id);
  const all = combinations(expand(job.strategy.matrix, contexts));
  if (!all.length || all.length > 256) throw new Error(`a matrix of ${all.length} jobs`);
  const found = { result: "success", outputs: {}, legs: [] };
  for (const values of all) {
    const leg = one(values, `${id} (${Object.values(values).join(", ")})`);
    found.legs.push({ matrix: values, ...leg });
    if (leg.result === "failure") found.result = "failure";
    for (const [name, value] of Object.entries(leg.outputs)) if (value !== "") found.outputs[name] = value;
    note(`${id} ${JSON.stringify(values)}: ${leg.result}`);
  }
  return found;
}

fs.mkdirSync(state, { recursive: true });
const workflow = read(path.join(root, options.workflow));
const dispatched = workflow.on[github.event_name]?.inputs ?? {};
const inputs = {};
if (github.event_name === "workflow_dispatch") {
  for (const [name, known] of Object.entries(dispatched)) inputs[name] = event.inputs?.[name] ?? known.default ?? "";
}
const all = { contents: "write", issues: "write", actions: "write", attestations: "write", pages: "write", "id-token": "write", packages: "write" };
const done = jobs(workflow, inputs, all);
process.stdout.write(`${JSON.stringify({ jobs: done, log }, null, 1)}\n`);
process.exitCode = Object.values(done).some((one) => one.result === "failure") ? 1 : 0;
