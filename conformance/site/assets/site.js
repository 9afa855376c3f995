"use strict";
// Filters of the matrix. Without this script the page shows everything.
const matrix = document.getElementById("matrix");
if (matrix) {
  const field = (name) => document.getElementById(name);
  const apply = () => {
    const backend = field("backend").value.trim().toLowerCase();
    const mode = field("mode").value;
    const build = field("build").value;
    const state = field("state").value;
    for (const part of matrix.querySelectorAll("[data-build]")) {
      part.hidden = build !== "" && part.dataset.build !== build;
    }
    let shown = 0;
    for (const row of matrix.querySelectorAll("tbody tr")) {
      const cells = [...row.querySelectorAll("td[data-state]")].filter((cell) => !cell.hidden);
      const fits =
        row.dataset.backend.toLowerCase().includes(backend) &&
        (mode === "" || row.dataset.mode === mode) &&
        (state === "" || cells.some((cell) => cell.dataset.state === state) || (cells.length === 0 && state === "unknown"));
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    field("nothing").hidden = shown !== 0;
  };
  for (const name of ["backend", "mode", "build", "state"]) {
    field(name).addEventListener("input", apply);
    field(name).addEventListener("change", apply);
  }
  document.querySelector(".filters").hidden = false;
  apply();
}

// Ages are computed when the site is built. If the site is no longer rebuilt, an old pass must not look fresh.
const made = document.documentElement.dataset.made;
const days = made ? Math.floor((Date.now() - Date.parse(made)) / 86400000) : 0;
if (days > 3) {
  const note = document.createElement("p");
  note.className = "outdated";
  note.setAttribute("role", "status");
  note.textContent = `This site was made ${days} days ago, on ${made}, and not since: it may be out of date.`;
  document.body.prepend(note);
}
