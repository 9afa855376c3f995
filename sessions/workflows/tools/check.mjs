// Reads workflows and actions as GitHub does: its own parser, its templates of jobs, its check of every expression's
// context. Prints one line for each problem, and ends with 1 if there is one.
//
//   node check.mjs ROOT [FILE...]    (default: all workflows and actions of the repository ROOT)
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { validate } from "@actions/languageservice";
import { parse } from "yaml";
import { convertWorkflowTemplate, NoOperationTraceWriter, parseWorkflow } from "@actions/workflow-parser";
import { parseAction } from "@actions/workflow-parser/actions/index";
import { TextDocument } from "vscode-languageserver-textdocument";
import { action, actions, workflows } from "./files.mjs";

const [root, ...named] = process.argv.slice(2);
const trace = new NoOperationTraceWriter();
const files = {
  getFileContent: async ({ path: name }) => ({ name, content: fs.readFileSync(path.join(root, name), "utf8") }),
};
let count = 0;
let problems = 0;

function tell(file, words) {
  problems += 1;
  console.log(`${path.relative(root, file)}: ${words}`);
}

async function document(file, isAction) {
  count += 1;
  const content = fs.readFileSync(file, "utf8");
  const source = { name: path.relative(root, file), content };
  if (isAction) {
    const { context } = parseAction(source, trace);
    for (const error of context.errors.getErrors()) tell(file, error.message);
  } else {
    const { context, value } = parseWorkflow(source, trace);
    for (const error of context.errors.getErrors()) tell(file, error.message);
    if (value) {
      const options = { maxReusableWorkflowDepth: 4, fetchReusableWorkflowDepth: 1 };
      const template = await convertWorkflowTemplate(context, value, files, options);
      for (const error of template.errors ?? []) tell(file, error.Message);
      if (!template.jobs?.length) tell(file, "it has no job");
    }
  }
  const text = TextDocument.create(pathToFileURL(path.resolve(file)).href, "yaml", 1, content);
  const found = await validate(text, { fileProvider: files });
  for (const one of found) tell(file, `${one.range.start.line + 1}: ${one.message}`);
  calls(file, parse(content));
}

/** Every action and workflow of this repository that is named exists, and is given inputs that it has. */
function calls(file, content) {
  const jobs = Object.values(content.jobs ?? {});
  const steps = [...jobs.flatMap((job) => job.steps ?? []), ...(content.runs?.steps ?? [])];
  for (const { uses, with: inputs = {} } of [...steps, ...jobs]) {
    if (!/^[$.]\//.test(uses ?? "")) continue;
    const inner = path.join(root, uses.slice(2));
    const isWorkflow = /\.ya?ml$/.test(inner);
    if (!fs.existsSync(inner)) {
      tell(file, `there is no ${uses}`);
      continue;
    }
    const known = isWorkflow ? parse(fs.readFileSync(inner, "utf8")).on.workflow_call?.inputs : action(inner).inputs;
    for (const name of Object.keys(inputs)) if (!(name in (known ?? {}))) tell(file, `${uses} has no input ${name}`);
    for (const [name, one] of Object.entries(known ?? {})) {
      if (one.required && !(name in inputs)) tell(file, `${uses} is not given ${name}`);
    }
  }
}

if (named.length) {
  for (const file of named) await document(path.resolve(file), /action\.ya?ml$/.test(file));
} else {
  for (const file of workflows(root)) await document(file, false);
  for (const folder of actions(root)) await document(path.join(folder, "action.yml"), true);
}
console.log(`${count} files read as GitHub does, ${problems} problems`);
process.exitCode = problems ? 1 : 0;
