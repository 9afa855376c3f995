// Checks workflow and action files with GitHub's own packages: the syntax, the job templates and the contexts of all
// expressions. Prints one line for each problem. The exit code is 1 if a file has a problem.
//
//   node check.mjs ROOT [FILE...]    (default: all workflows and actions of the repository in the folder ROOT)
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { validate } from "@actions/languageservice";
import { parse } from "yaml";
import { convertWorkflowTemplate, NoOperationTraceWriter, parseWorkflow } from "@actions/workflow-parser";
import { parseAction } from "@actions/workflow-parser/actions/index";
import { TextDocument } from "vscode-languageserver-textdocument";
import { actionFolders, readAction, workflowFiles } from "./files.mjs";

const [root, ...selectedFiles] = process.argv.slice(2);
const trace = new NoOperationTraceWriter();
const fileProvider = {
  getFileContent: async ({ path: name }) => ({ name, content: fs.readFileSync(path.join(root, name), "utf8") }),
};
let fileCount = 0;
let problemCount = 0;

function reportProblem(file, message) {
  problemCount += 1;
  console.log(`${path.relative(root, file)}: ${message}`);
}

async function checkFile(file, isAction) {
  fileCount += 1;
  const content = fs.readFileSync(file, "utf8");
  const source = { name: path.relative(root, file), content };
  if (isAction) {
    const { context } = parseAction(source, trace);
    for (const error of context.errors.getErrors()) reportProblem(file, error.message);
  } else {
    const { context, value } = parseWorkflow(source, trace);
    for (const error of context.errors.getErrors()) reportProblem(file, error.message);
    if (value) {
      const options = { maxReusableWorkflowDepth: 4, fetchReusableWorkflowDepth: 1 };
      const template = await convertWorkflowTemplate(context, value, fileProvider, options);
      for (const error of template.errors ?? []) reportProblem(file, error.Message);
      if (!template.jobs?.length) reportProblem(file, "the workflow has no job");
    }
  }
  const text = TextDocument.create(pathToFileURL(path.resolve(file)).href, "yaml", 1, content);
  const diagnostics = await validate(text, { fileProvider });
  for (const { range, message } of diagnostics) reportProblem(file, `${range.start.line + 1}: ${message}`);
  checkLocalUses(file, parse(content));
}

/** Report each `uses` of a missing action or workflow of this repository, each undeclared input that it sets, and each
 * required input that it does not set. */
function checkLocalUses(file, content) {
  const jobs = Object.values(content.jobs ?? {});
  const steps = [...jobs.flatMap((job) => job.steps ?? []), ...(content.runs?.steps ?? [])];
  for (const { uses, with: inputs = {} } of [...steps, ...jobs]) {
    if (!/^[$.]\//.test(uses ?? "")) continue;
    const called = path.join(root, uses.slice(2));
    const isWorkflow = /\.ya?ml$/.test(called);
    if (!fs.existsSync(called)) {
      reportProblem(file, `${uses} does not exist`);
      continue;
    }
    const declared = isWorkflow ? parse(fs.readFileSync(called, "utf8")).on.workflow_call?.inputs : readAction(called).inputs;
    for (const name of Object.keys(inputs)) if (!(name in (declared ?? {}))) reportProblem(file, `${uses} has no input ${name}`);
    for (const [name, input] of Object.entries(declared ?? {})) {
      if (input.required && !(name in inputs)) reportProblem(file, `${uses} requires input ${name}, which is not set`);
    }
  }
}

if (selectedFiles.length) {
  for (const file of selectedFiles) await checkFile(path.resolve(file), /action\.ya?ml$/.test(file));
} else {
  for (const file of workflowFiles(root)) await checkFile(file, false);
  for (const folder of actionFolders(root)) await checkFile(path.join(folder, "action.yml"), true);
}
console.log(`${fileCount} files checked with GitHub's parser, ${problemCount} problems`);
process.exitCode = problemCount ? 1 : 0;
