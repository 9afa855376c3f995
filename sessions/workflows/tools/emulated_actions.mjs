// GitHub's actions, imitated on this machine: artifacts and pages are folders, a signature is a digest.
import { execFileSync } from "node:child_process";
import crypto from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { need } from "./permissions.mjs";

const matches = (name, pattern) =>
  new RegExp(`^${pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join(".*")}$`).test(name);

function upload(run, inputs) {
  const name = inputs.name;
  if (!/^[^":<>|*?\r\n\\/]+$/.test(name)) throw new Error(`${name} is no name of an artifact`);
  const target = path.join(run.state, "artifacts", name);
  if (fs.existsSync(target)) {
    if (String(inputs.overwrite) !== "true") throw new Error(`artifact ${name} is there already, and cannot be changed`);
    fs.rmSync(target, { recursive: true });
  }
  const source = path.resolve(run.workspace, inputs.path);
  if (!fs.existsSync(source) || (fs.statSync(source).isDirectory() && fs.readdirSync(source).length === 0)) {
    if (inputs["if-no-files-found"] === "error") throw new Error(`no files at ${inputs.path}`);
    return {};
  }
  fs.mkdirSync(target, { recursive: true });
  if (fs.statSync(source).isDirectory()) fs.cpSync(source, target, { recursive: true });
  else fs.copyFileSync(source, path.join(target, path.basename(source)));
  return { "artifact-id": String(fs.readdirSync(path.dirname(target)).length) };
}

function download(run, inputs) {
  const folder = path.join(run.state, "artifacts");
  const names = fs.existsSync(folder) ? fs.readdirSync(folder).sort() : [];
  const target = path.resolve(run.workspace, inputs.path ?? ".");
  if (inputs.name) {
    if (!names.includes(inputs.name)) throw new Error(`there is no artifact ${inputs.name}`);
    fs.cpSync(path.join(folder, inputs.name), target, { recursive: true });
    return {};
  }
  const wanted = names.filter((one) => matches(one, inputs.pattern ?? "*"));
  for (const name of wanted) {
    // Since version 5 a single artifact is put into the folder itself.
    const flat = String(inputs["merge-multiple"]) === "true" || wanted.length === 1;
    const own = flat ? target : path.join(target, name);
    fs.cpSync(path.join(folder, name), own, { recursive: true });
  }
  return {};
}

function checkout(run, inputs) {
  need(run.permissions, "contents", "read", "actions/checkout");
  if (String(inputs["persist-credentials"]) !== "false") throw new Error("actions/checkout keeps its token");
  const target = path.resolve(run.workspace, inputs.path ?? ".");
  const source = `${run.github.server_url}/${run.github.repository}`;
  const branch = inputs.ref ? ["--branch", inputs.ref] : [];
  execFileSync("git", ["clone", "--quiet", "--depth=1", ...branch, source, target], { stdio: "pipe" });
  return {};
}

function attest(run, inputs) {
  need(run.permissions, "id-token", "write", "actions/attest");
  need(run.permissions, "attestations", "write", "actions/attest");
  const file = path.resolve(run.workspace, inputs["subject-path"]);
  const digest = crypto.createHash("sha256").update(fs.readFileSync(file)).digest("hex");
  const folder = path.join(run.state, "attestations");
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(path.join(folder, digest), `${run.github.repository} ${run.github.workflow_ref}\n`);
  return {};
}

function deploy(run, inputs) {
  need(run.permissions, "pages", "write", "actions/deploy-pages");
  need(run.permissions, "id-token", "write", "actions/deploy-pages");
  const target = path.join(run.state, "pages");
  fs.rmSync(target, { recursive: true, force: true });
  fs.cpSync(path.join(run.state, "artifacts", inputs.artifact_name ?? "github-pages"), target, { recursive: true });
  return { page_url: `file://${target}/` };
}

export const PROVIDED = {
  "actions/checkout": checkout,
  "actions/setup-python": () => ({}),
  "actions/upload-artifact": upload,
  "actions/download-artifact": download,
  "actions/attest": attest,
  "actions/upload-pages-artifact": (run, inputs) => upload(run, { name: "github-pages", ...inputs }),
  "actions/deploy-pages": deploy,
};
