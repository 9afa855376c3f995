// The permissions of jobs. GitHub does not start a called workflow that asks for more permissions than its caller grants.
const RANK = { none: 0, read: 1, write: 2 };

/** Return the permissions of a job. A job without permissions has the permissions of its workflow. */
export function permissionsOfJob(job, workflow) {
  const value = job.permissions ?? workflow.permissions;
  if (value === undefined || typeof value === "string") {
    throw new Error(`permissions are ${value ?? "the default"}. List each permission with its level.`);
  }
  return value;
}

/** Throw an error if a job requests a permission that its caller did not grant. */
export function requireGranted(requested, granted, jobLabel) {
  for (const [name, level] of Object.entries(requested)) {
    if (RANK[level] > RANK[granted[name] ?? "none"]) {
      throw new Error(`${jobLabel} asks for ${name}: ${level}, which its caller does not grant`);
    }
  }
}

/** Throw an error if a job does not have a permission that an action needs. */
export function requirePermission(granted, name, level, action) {
  if (RANK[granted[name] ?? "none"] < RANK[level]) throw new Error(`${action} needs ${name}: ${level}`);
}
