// The permissions of a job. A called workflow that asks for more than its caller grants does not start at all.
const RANK = { none: 0, read: 1, write: 2 };

/** Permissions of a job: its own, or those of its workflow. */
export function of(job, workflow) {
  const value = job.permissions ?? workflow.permissions;
  if (value === undefined || typeof value === "string") {
    throw new Error(`permissions are ${value ?? "the default"}; name each one`);
  }
  return value;
}

/** Throws where permissions go beyond those that were granted. */
export function within(asked, granted, where) {
  for (const [name, level] of Object.entries(asked)) {
    if (RANK[level] > RANK[granted[name] ?? "none"]) {
      throw new Error(`${where} asks for ${name}: ${level}, which its caller does not grant`);
    }
  }
}

/** Throws where a job does not have a permission that an action needs. */
export function need(granted, name, level, what) {
  if (RANK[granted[name] ?? "none"] < RANK[level]) throw new Error(`${what} needs ${name}: ${level}`);
}
