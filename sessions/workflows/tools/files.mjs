// Find and read the workflow and action files of a repository.
import fs from "node:fs";
import path from "node:path";
import { parse } from "yaml";

export const readYaml = (file) => parse(fs.readFileSync(file, "utf8"));

/** Return the content of the action file in a folder. */
export function readAction(folder) {
  for (const name of ["action.yml", "action.yaml"]) {
    const file = path.join(folder, name);
    if (fs.existsSync(file)) return readYaml(file);
  }
  throw new Error(`${folder} contains no action.yml`);
}

/** Return the paths of all workflow files of a repository, sorted. */
export function workflowFiles(root) {
  const folder = path.join(root, ".github", "workflows");
  return fs
    .readdirSync(folder)
    .filter((name) => /\.ya?ml$/.test(name))
    .sort()
    .map((name) => path.join(folder, name));
}

/** Return the folders of all actions of a repository, sorted. */
export function actionFolders(root) {
  const folder = path.join(root, ".github", "actions");
  return fs
    .readdirSync(folder)
    .sort()
    .map((name) => path.join(folder, name));
}
