// The workflows and actions of a repository.
import fs from "node:fs";
import path from "node:path";
import { parse } from "yaml";

export const read = (file) => parse(fs.readFileSync(file, "utf8"));

export function action(folder) {
  for (const name of ["action.yml", "action.yaml"]) {
    const file = path.join(folder, name);
    if (fs.existsSync(file)) return read(file);
  }
  throw new Error(`there is no action in ${folder}`);
}

/** All workflow files of a repository. */
export function workflows(root) {
  const folder = path.join(root, ".github", "workflows");
  return fs
    .readdirSync(folder)
    .filter((name) => /\.ya?ml$/.test(name))
    .sort()
    .map((name) => path.join(folder, name));
}

/** All actions of a repository, as folders. */
export function actions(root) {
  const folder = path.join(root, ".github", "actions");
  return fs
    .readdirSync(folder)
    .sort()
    .map((name) => path.join(folder, name));
}
