"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id) || document.querySelector(`#${id}`);
const letters = data.letters;
const order = Object.keys(letters).join("");
const PAGE = 100;
const VIEWS = ["overview", "matrix", "failures", "notes", "run", "terms"];
let termShown = "";
let leg, cells, view = "overview", shown = PAGE, predicate = null;

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const text = (value) => String(value).replace(/[&<>"']/g, (char) => escapes[char]);
/* Return the HTML of a word: a button that shows the word's meaning if the word is a term of the glossary. */
const term = (name, shown = name) => (name in data.terms
  ? `<button class="term" data-term="${text(name)}" title="${text(data.terms[name])}">${text(shown)}</button>` : text(shown));
const verdictOf = (item, index) => (item[3].length === 1 ? item[3] : item[3][index]);
const worst = (string) => {
  let found = order.length - 1;
  for (const letter of string) found = Math.min(found, order.indexOf(letter));
  return order[found];
};
const idOf = (item, index) =>
  `${leg.properties[item[1]]}/${leg.subjects[item[0]]}@${leg.dtypes[item[2][index]]}`;
const chip = (letter) => `<span class="chip v-${letters[letter]}">${letters[letter]}</span>`;
const commandOf = (entry, id) => entry.command.replace("RESULT", /^[\w@%+=:,./-]+$/.test(id) ? id : `'${id}'`);
const command = (id) => commandOf(leg, id);

function chooseLeg(index) {
  leg = data.legs[index];
  cells = new Map();
  for (const item of leg.cases) {
    if (!cells.has(item[0])) cells.set(item[0], new Map());
    cells.get(item[0]).set(item[1], item);
  }
  $("leg").value = String(index);
  draw();
}

/* Read the view, the leg and the query from the page's address, and return the leg's index. A link thus shows the same view. */
function readAddress() {
  const words = new URLSearchParams(location.hash.replace("#show-", "view=").replace(/^#/, ""));
  view = VIEWS.includes(words.get("view")) ? words.get("view") : "overview";
  $("query").value = words.get("q") || "";
  return data.legs[Number(words.get("leg"))] ? Number(words.get("leg")) : 0;
}
function writeAddress() {
  const words = new URLSearchParams({ view });
  if (data.legs.indexOf(leg) > 0) words.set("leg", data.legs.indexOf(leg));
  if ($("query").value.trim()) words.set("q", $("query").value.trim());
  history.replaceState(null, "", `#${words}`);
}

/* Parse the query into `predicate`. Show a syntax error and keep the previous predicate. */
function readQuery() {
  let mistake = "";
  try {
    predicate = $("query").value.trim() ? conformanceQuery.parse($("query").value) : null;
  } catch (error) {
    mistake = error.message;
  }
  $("mistake").textContent = mistake;
  $("mistake").hidden = !mistake;
}

/* The fields of one result for a query. The object is reused for each result. */
class QueryRow {
  item(entry, one) {
    this.entry = entry;
    this.op = entry.subjects[one[0]];
    this.family = entry.families[one[0]];
    this.property = entry.properties[one[1]];
    this.placement = one[4] < 0 ? "" : data.placements[one[4]];
    this.mode = entry.mode;
    this.target = entry.target.name;
    this.torch = entry.torch;
    this.numbers = one[5];
    return this;
  }
  result(dtype, letter, index) {
    this.dtype = this.entry.dtypes[dtype];
    this.verdict = letters[letter];
    this.index = index;
    return this;
  }
  get id() { return `${this.property}/${this.op}@${this.dtype}`; }
  get seconds() { return this.numbers[this.index][4] / 1000; }
  get detail() { return this.entry.details[this.id] || {}; }
  get texts() { return [...(this.detail.failures || []).map((failure) => failure.message), ...(this.detail.notes || [])]; }
  get kinds() {
    return [...(this.detail.failures || []).map((failure) => failure.kind),
      ...(this.detail.attempts || []).flatMap((attempt) => attempt.kinds || [])];
  }
}
const queryRow = new QueryRow();

/* Return the text "N results ran", or "N of M results ran" if the level has more results than ran. */
function ran(entry) {
  const count = Object.entries(entry.totals).reduce((sum, [name, number]) => name === "skip" ? sum : sum + number, 0);
  return `${count.toLocaleString()}${count < entry.planned ? ` of ${entry.planned.toLocaleString()}` : ""} results ran`;
}

function head() {
  const words = ["as expected", "unexpected results", "not run", "incomplete"];
  const whole = view === "overview" && data.legs.length > 1, totals = whole ? data.totals : leg.totals;
  const all = (key) => [...new Set(data.legs.map((entry) => key(entry)))].join(", ");
  const named = (entry) => entry.target.name + (entry.target.simulated ? " (simulated)" : "")
    + (entry.target.untested ? " (untested target file)" : "");
  $("target").textContent = whole ? `${all(named)}, ${all((entry) => entry.mode)}`
    : `${named(leg)}, ${leg.mode}, ${leg.level}`;
  document.title = `Conformance of ${all((entry) => entry.target.name)}: ${words[data.exit]}`;
  $("state").innerHTML = whole
    ? `<b>${words[data.exit]}</b> · torch ${text(all((entry) => entry.torch))} · ${data.legs.length} legs`
    : `<b>${words[leg.exit]}</b> · torch ${text(leg.torch)} · ` +
      `${ran(leg)} · ` +
      `${text(leg.started.replace("T", " "))} · ${Math.round(leg.seconds)} s`;
  const total = Object.values(totals).reduce((sum, count) => sum + count, 0) || 1;
  $("bar").innerHTML = Object.entries(totals).map(([name, count]) =>
    `<i class="v-${name}" style="width:${(100 * count) / total}%" title="${count} ${name}"></i>`).join("");
  $("legend").innerHTML = Object.entries(totals).map(([name, count]) =>
    `<li><button data-verdict="${name}"><span class="swatch v-${name}"></span>` +
    `${count.toLocaleString()} ${name}</button></li>`).join("");
  const problems = (whole ? data.legs : [leg]).flatMap((entry) => {
    const found = [...entry.problems, ...entry.oracle.differences];
    const { count, first: names } = entry.missing;
    if (count) found.unshift(`${count} of ${entry.planned} results are missing, first ${names[0]}`);
    return whole ? found.map((line) => `${entry.name}: ${line}`) : found;
  });
  $("problems").innerHTML = problems.slice(0, 20).map((line) => `<p>${text(line)}</p>`).join("");
}

/* Return the results of a case that match the query, as [index, letter] pairs. */
function passing(entry, item) {
  const found = [], row = predicate && queryRow.item(entry, item);
  for (let index = 0; index < item[2].length; index++) {
    const letter = verdictOf(item, index);
    if (!row || predicate(row.result(item[2][index], letter, index))) found.push([index, letter]);
  }
  return found;
}

function* selected() {
  for (const item of leg.cases) {
    const found = passing(leg, item);
    if (found.length) yield [item, found];
  }
}

function draw() {
  readQuery();
  writeAddress();
  head();
  for (const section of document.querySelectorAll(".view")) section.hidden = section.id !== view;
  for (const button of document.querySelectorAll("nav button")) {
    button.classList.toggle("on", button.dataset.view === view);
    if (button.dataset.view === view) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
  $("leg").hidden = data.legs.length < 2 || view === "overview";
  if (view === "overview") return drawOverview();
  const chosen = [...selected()];
  const results = chosen.reduce((sum, [, found]) => sum + found.length, 0);
  $("count").textContent = `${results.toLocaleString()} results in ${chosen.length.toLocaleString()} cases`;
  return ({ matrix: drawMatrix, failures: drawFailures, notes: drawNotes, run: drawRun, terms: drawTerms })[view](chosen);
}

function entry(item, index, letter, open) {
  const id = idOf(item, index), detail = leg.details[id] || {}, failures = detail.failures || [];
  const first = failures.length ? failures[0].message.split("\n")[0] : (detail.notes || [""])[0];
  const kinds = [...new Set(failures.map((failure) => failure.kind))].join(", ");
  const line = command(id), numbers = item[5][index];
  return `<details class="item"${open ? " open" : ""}><summary>${chip(letter)} <code>${text(id)}</code>` +
    `<span class="kind">${text(kinds)}</span><span class="first">${text(first)}</span></summary>` +
    failures.map((failure) => `<pre>${text(failure.kind)}${failure.sample === undefined ? ""
      : `, sample ${failure.sample}`}: ${text(failure.message)}</pre>`).join("") +
    ((detail.failure_count || 0) > failures.length ? `<p>and ${detail.failure_count - failures.length} more</p>` : "") +
    (detail.notes || []).map((note) => `<p>${text(note)}</p>`).join("") +
    (detail.attempts ? `<p>attempts: ${detail.attempts.map((a) => a.verdict).join(", ")}</p>` : "") +
    `<p>seed ${numbers[3]} · <code>${text(line)}</code><button class="copy" data-copy="${text(line)}">copy</button></p>` +
    "</details>";
}

function listed(section, all, empty) {
  section.innerHTML = all.length ? all.slice(0, shown).map((make) => make()).join("") +
    (all.length > shown ? `<button class="more" data-more>show more (${all.length - shown} left)</button>` : "")
    : `<p class="none">${empty}</p>`;
}

function drawFailures(chosen) {
  /* Passes are listed only if the query contains a verdict. */
  const all = [], asked = /(^|[\s(-])verdict:/i.test($("query").value);
  for (const [item, found] of chosen) {
    for (const [index, letter] of found) {
      if (asked || data.unexpected.includes(letter) || letter === "x") {
        all.push([order.indexOf(letter), () => entry(item, index, letter)]);
      }
    }
  }
  all.sort((a, b) => a[0] - b[0]);
  listed($("failures"), all.map(([, make]) => make), "Nothing failed in this selection.");
}

function drawNotes(chosen) {
  const all = [];
  for (const [item, found] of chosen) {
    for (const [index, letter] of found) {
      const detail = leg.details[idOf(item, index)];
      if (detail && detail.notes) all.push(() => entry(item, index, letter, true));
    }
  }
  listed($("notes"), all, "There are no notes in this selection.");
}

function drawRun() {
  const rows = [["target", `${leg.target.name} (${leg.target.file}), device ${leg.target.device}`
    + (leg.target.simulated ? ", simulated: the device is not hardware" : "")
    + (leg.target.untested ? ", untested: the target file has not been confirmed by a run" : "")],
    ["precision", leg.target.precision], ["mode", leg.mode], ["level", leg.level], ["shard", leg.shard],
    ["selection", leg.selection === null ? "none" : `${leg.selection} (${leg.left_out} results omitted)`],
    ["samples", leg.samples], ["workers", leg.workers], ["started", leg.started], ["seconds", leg.seconds],
    ["torch", `${leg.torch}, revision ${leg.facts.torch.revision || "unknown"}`],
    ["backend", leg.facts.backend.module === null ? "torch's own"
      : `${leg.facts.backend.module} ${leg.facts.backend.version || ""}`],
    ["python", `${leg.facts.python} on ${leg.facts.platform}`], ["suite", data.suite],
    ["oracle values checked", leg.oracle.checked],
    ...Object.entries(leg.digests).map(([name, digest]) => [`digest of ${name}`, digest || "none"])];
  $("run").innerHTML = `<dl>${rows.map(([name, value]) => `<dt>${text(name)}</dt><dd>${text(value)}</dd>`).join("")}</dl>`;
}

/* List all terms of the glossary, the chosen one in view. */
function drawTerms() {
  $("terms").innerHTML = `<dl>${Object.entries(data.terms).map(([name, meaning]) =>
    `<dt${name === termShown ? ' class="on"' : ""}>${text(name)}</dt><dd>${text(meaning)}</dd>`).join("")}</dl>`;
  const chosen = document.querySelector("#terms dt.on");
  if (chosen) chosen.scrollIntoView({ block: "center" });
}

const documentedAt = (page, name) => (page
  ? ` <a class="kind" href="${text(page)}" rel="noreferrer">PyTorch on ${text(name)}</a>` : "");
const documented = (name) => documentedAt(data.documentation[name], name);
const promiseOf = (name) => (data.promises[name] ? `<p>${text(data.promises[name])}${documented(name)}</p>` : "");

function openCell(subject, property) {
  const item = cells.get(subject).get(property);
  const rows = item[2].map((dtype, index) => {
    const [comparisons, used, available, , milliseconds] = item[5][index];
    return `<tr><td><code>${text(leg.dtypes[dtype])}</code></td><td>${chip(verdictOf(item, index))}</td>` +
      `<td class="n">${comparisons.toLocaleString()}</td><td class="n">${used} / ${available}</td>` +
      `<td class="n">${milliseconds}</td></tr>`;
  }).join("");
  const bad = item[2].map((_, index) => index).filter((index) => leg.details[idOf(item, index)]);
  $("detail").innerHTML = `<h2><span>${text(leg.properties[property])} / ${text(leg.subjects[subject])}</span>` +
    "<button class=\"copy\" data-close>close</button></h2>" + promiseOf(leg.properties[property]) + "<table><tr><th>dtype</th><th>verdict</th>" +
    `<th class="n">compared</th><th class="n">samples</th><th class="n">ms</th></tr>${rows}</table>` +
    bad.map((index) => entry(item, index, verdictOf(item, index), bad.length === 1)).join("");
  $("detail").showModal();
}

/* Add a verdict to the query, or remove it if the query already contains it. */
function toggleVerdict(name) {
  const term = `verdict:${name}`, words = $("query").value.trim();
  const without = words.split(/\s+/).filter((word) => word !== term).join(" ");
  $("query").value = without === words ? `${words} ${term}`.trim() : without;
}

document.addEventListener("click", (event) => {
  const words = ["cell", "view", "verdict", "copy", "more", "close", "leg", "result", "subjects", "kind", "term"];
  const { dataset } = event.target.closest(words.map((word) => `[data-${word}]`).join()) || { dataset: {} };
  if (dataset.cell) openCell(...dataset.cell.split(",").map(Number));
  else if (dataset.result) openResult(Number(dataset.result.split(",")[0]), dataset.result.replace(/^\d+,/, ""));
  else if (dataset.leg) { view = "matrix"; chooseLeg(Number(dataset.leg)); }
  else if (dataset.term) { termShown = dataset.term; $("detail").close(); view = "terms"; draw(); }
  else if (dataset.kind) { kindShown = dataset.kind; draw(); }
  else if ("subjects" in dataset) { subjectsShown += SUBJECTS; draw(); }
  else if (dataset.view) { view = dataset.view; shown = PAGE; draw(); }
  else if (dataset.verdict) {
    if (view === "overview") view = "failures";
    toggleVerdict(dataset.verdict);
    draw();
  } else if (dataset.copy) navigator.clipboard.writeText(dataset.copy);
  else if ("more" in dataset) { shown += PAGE; draw(); }
  else if ("close" in dataset || event.target === $("detail")) $("detail").close();
});

let vocabulary, waiting;
function words() {
  const all = (key) => [...new Set(data.legs.flatMap(key))].sort();
  vocabulary ||= {
    op: all((entry) => entry.subjects), family: all((entry) => entry.families), property: all((entry) => entry.properties),
    dtype: all((entry) => entry.dtypes), target: all((entry) => [entry.target.name]), torch: all((entry) => [entry.torch]),
  };
  return vocabulary;
}
$("query").addEventListener("input", () => {
  $("words").innerHTML = conformanceQuery.complete($("query").value, words())
    .map((line) => `<option value="${text(line)}"></option>`).join("");
  clearTimeout(waiting);
  waiting = setTimeout(() => { shown = PAGE; draw(); }, 150);
});
$("leg").addEventListener("change", () => chooseLeg(Number($("leg").value)));
window.addEventListener("hashchange", () => { if (data.legs.length) chooseLeg(readAddress()); });
$("leg").innerHTML = data.legs.map((entry, index) => `<option value="${index}">${text(entry.name)}</option>`).join("");
if (data.legs.length) chooseLeg(readAddress());
