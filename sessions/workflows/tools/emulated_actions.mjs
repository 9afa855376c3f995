// Emulations of GitHub's own actions on this machine. Artifacts and pages are folders; an attestation is a file whose name
// is the digest of the attested file.
import { execFileSync } from "node:child_process";
import crypto from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { requirePermission } from "./permissions.mjs";

const matchesPattern = (name, pattern) =>
  new RegExp(`^${pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join(".*")}$`).test(name);

function uploadArtifact(run, inputs) {
  const name = inputs.name;
  if (!/^[^":<>|*?\r\n\\/]+$/.test(name)) throw new Error(`${name} is not a valid artifact name`);
  const target = path.join(run.state, "artifacts", name);
  if (fs.existsSync(target)) {
    if (String(inputs.overwrite) !== "true") throw new Error(`artifact ${name} exists already; set overwrite to replace it`);
    fs.rmSync(target, { recursive: true });
  }
  const source = path.resolve(run.workspace, inputs.path);
  if (!fs.existsSync(source) || (fs.statSync(source).isDirectory() && fs.readdirSync(source).length === 0)) {
    if (inputs["if-no-files-found"] === "error") throw new Error(`${inputs.path} contains no files to upload`);
    return {};
  }
  fs.mkdirSync(target, { recursive: true });
  if (fs.statSync(source).isDirectory()) fs.cpSync(source, target, { recursive: true });
  else fs.copyFileSync(source, path.join(target, path.basename(source)));
  return { "artifact-id": String(fs.readdirSync(path.dirname(target)).length) };
}

function downloadArtifact(run, inputs) {
  const folder = path.join(run.state, "artifacts");
  const names = fs.existsSync(folder) ? fs.readdirSync(folder).sort() : [];
  const target = path.resolve(run.workspace, inputs.path ?? ".");
  if (inputs.name) {
    if (!names.includes(inputs.name)) throw new Error(`artifact ${inputs.name} does not exist`);
    fs.cpSync(path.join(folder, inputs.name), target, { recursive: true });
    return {};
  }
  const selected = names.filter((name) => matchesPattern(name, inputs.pattern ?? "*"));
  for (const name of selected) {
    // Since version 5, actions/download-artifact writes a single artifact directly into the target folder.
    const flat = String(inputs["merge-multiple"]) === "true" || selected.length === 1;
    const destination = flat ? target : path.join(target, name);
    fs.cpSync(path.join(folder, name), destination, { recursive: true });
  }
  return {};
}

function checkout(run, inputs) {
  requirePermission(run.permissions, "contents", "read", "actions/checkout");
  if (String(inputs["persist-credentials"]) !== "false") throw new Error("actions/checkout would store its token; set persist-credentials to false");
  const target = path.resolve(run.workspace, inputs.path ?? ".");
  const source = `${run.github.server_url}/${run.github.repository}`;
  const branch = inputs.ref ? ["--branch", inputs.ref] : [];
  execFileSync("git", ["clone", "--quiet", "--depth=1", ...branch, source, target], { stdio: "pipe" });
  return {};
}

function attest(run, inputs) {
  requirePermission(run.permissions, "id-token", "write", "actions/attest");
  requirePermission(run.permissions, "attestations", "write", "actions/attest");
  const file = path.resolve(run.workspace, inputs["subject-path"]);
  const digest = crypto.createHash("sha256").update(fs.readFileSync(file)).digest("hex");
  const folder = path.join(run.state, "attestations");
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(path.join(folder, digest), `${run.github.repository} ${run.github.workflow_ref}\n`);
  return {};
}

function deployPages(run, inputs) {
  requirePermission(run.permissions, "pages", "write", "actions/deploy-pages");
  requirePermission(run.permissions, "id-token", "write", "actions/deploy-pages");
  const target = path.join(run.state, "pages");
  fs.rmSync(target, { recursive: true, force: true });
  fs.cpSync(path.join(run.state, "artifacts", inputs.artifact_name ?? "github-pages"), target, { recursive: true });
  return { page_url: `file://${target}/` };
}

/** Functions by the name of the action that they emulate. Each function returns the outputs of the action. */
export const EMULATED_ACTIONS = {
  "actions/checkout": checkout,
  "actions/setup-python": () => ({}),
  "actions/upload-artifact": uploadArtifact,
  "actions/download-artifact": downloadArtifact,
  "actions/attest": attest,
  "actions/upload-pages-artifact": (run, inputs) => uploadArtifact(run, { name: "github-pages", ...inputs }),
  "actions/deploy-pages": deployPages,
};
