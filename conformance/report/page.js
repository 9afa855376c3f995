"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const letters = data.letters;
const order = Object.keys(letters).join("");
const PAGE = 100;
const VIEWS = ["overview", "matrix", "failures", "notes", "run"];
const wish = location.hash.replace("#show-", "");
const first = "overview";
let leg, cells, view = VIEWS.includes(wish) ? wish : first, shown = PAGE;

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const text = (value) => String(value).replace(/[&<>"']/g, (char) => escapes[char]);
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

function options(id, first, values) {
  const old = $(id).value;
  $(id).innerHTML = `<option value="">${first}</option>` +
    values.map(([value, label]) => `<option value="${text(value)}">${text(label)}</option>`).join("");
  if (values.some(([value]) => value === old)) $(id).value = old;
}

function chooseLeg(index) {
  leg = data.legs[index];
  cells = new Map();
  for (const item of leg.cases) {
    if (!cells.has(item[0])) cells.set(item[0], new Map());
    cells.get(item[0]).set(item[1], item);
  }
  const numbered = (list) => list.map((name, number) => [String(number), name])
    .sort((a, b) => a[1].localeCompare(b[1]));
  options("property", "every property", numbered(leg.properties));
  options("dtype", "every dtype", numbered(leg.dtypes));
  options("verdict", "every verdict", [["!", "anything unexpected"],
    ...Object.entries(letters).filter(([, name]) => leg.totals[name])]);
  draw();
}

/* The results that ran, of those that the level has if they are more. */
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

/* The letters of a case that the filters let through, as [index, letter] pairs. */
function passing(item) {
  const dtype = $("dtype").value, verdict = $("verdict").value, found = [];
  for (let index = 0; index < item[2].length; index++) {
    if (dtype !== "" && item[2][index] !== Number(dtype)) continue;
    const letter = verdictOf(item, index);
    if (verdict === "!" ? !data.unexpected.includes(letter) : verdict !== "" && letter !== verdict) continue;
    found.push([index, letter]);
  }
  return found;
}

function matchesText(item, index, needle) {
  if (!needle) return true;
  const id = idOf(item, index);
  if (id.toLowerCase().includes(needle)) return true;
  const detail = leg.details[id];
  return !!detail && ((detail.failures || []).some((failure) => failure.message.toLowerCase().includes(needle)) ||
    (detail.notes || []).some((note) => note.toLowerCase().includes(needle)));
}

function* selected() {
  const needle = $("text").value.trim().toLowerCase(), property = $("property").value;
  for (const item of leg.cases) {
    if (property !== "" && item[1] !== Number(property)) continue;
    const found = passing(item).filter(([index]) => matchesText(item, index, needle));
    if (found.length) yield [item, found];
  }
}

function draw() {
  head();
  for (const section of document.querySelectorAll(".view")) section.hidden = section.id !== view;
  for (const button of document.querySelectorAll("nav button")) {
    button.classList.toggle("on", button.dataset.view === view);
  }
  for (const id of ["verdict", "property", "dtype"]) $(id).hidden = view === "overview";
  $("leg").hidden = data.legs.length < 2 || view === "overview";
  if (view === "overview") return drawOverview();
  const chosen = [...selected()];
  const results = chosen.reduce((sum, [, found]) => sum + found.length, 0);
  $("count").textContent = `${results.toLocaleString()} results in ${chosen.length.toLocaleString()} cases`;
  return ({ matrix: drawMatrix, failures: drawFailures, notes: drawNotes, run: drawRun })[view](chosen);
}

function drawMatrix(chosen) {
  const rows = new Map(), columns = new Set();
  for (const [item, found] of chosen) {
    if (!rows.has(item[0])) rows.set(item[0], new Map());
    rows.get(item[0]).set(item[1], worst(found.map(([, letter]) => letter).join("")));
    columns.add(item[1]);
  }
  const list = [...columns].sort((a, b) => leg.properties[a].localeCompare(leg.properties[b]));
  $("matrix").querySelector("thead").innerHTML = "<tr><th>subject</th>" +
    list.map((number) => `<th title="${text(leg.properties[number])}"><div>${text(leg.properties[number])}</div></th>`)
      .join("") + '<th class="p">placement</th></tr>';
  const lines = [...rows].map(([subject, found]) => "<tr><th title=\"" + text(leg.subjects[subject]) + "\">" +
    text(leg.subjects[subject]) + "</th>" + list.map((number) => {
      const letter = found.get(number);
      return letter === undefined ? "<td></td>"
        : `<td><b class="v-${letters[letter]}" data-cell="${subject},${number}">${letter}</b></td>`;
    }).join("") + `<td class="p">${placement(subject)}</td></tr>`);
  fill($("matrix").querySelector("tbody"), lines);
}

/* Rows are put in as they are scrolled to: a full run has 700 of them with 30 cells each. */
let filling = 0;
function fill(body, lines) {
  const turn = ++filling, box = body.closest(".scroll");
  let done = 0;
  body.innerHTML = "";
  const more = () => {
    if (turn !== filling) return;
    while (done < lines.length && body.offsetHeight < box.scrollTop + 2 * box.clientHeight + 400) {
      body.insertAdjacentHTML("beforeend", lines.slice(done, done += 60).join(""));
    }
  };
  box.onscroll = more;
  box.scrollTop = 0;
  more();
}

function placement(subject) {
  let found = -1;
  for (const item of cells.get(subject).values()) found = Math.max(found, item[4]);
  return found < 0 ? "" : data.placements[found];
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
  const all = [], wanted = $("verdict").value;
  for (const [item, found] of chosen) {
    for (const [index, letter] of found) {
      if (wanted === "" ? data.unexpected.includes(letter) || letter === "x" : letter !== ".") {
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
    + (leg.target.simulated ? ", simulated: no hardware stands behind it" : "")
    + (leg.target.untested ? ", untested: nobody has proved the target file by a run yet" : "")],
    ["precision", leg.target.precision], ["mode", leg.mode], ["level", leg.level], ["shard", leg.shard],
    ["selection", leg.selection === null ? "none" : `${leg.selection} (${leg.left_out} results left out)`],
    ["samples", leg.samples], ["workers", leg.workers], ["started", leg.started], ["seconds", leg.seconds],
    ["torch", `${leg.torch}, revision ${leg.facts.torch.revision || "unknown"}`],
    ["backend", leg.facts.backend.module === null ? "torch's own"
      : `${leg.facts.backend.module} ${leg.facts.backend.version || ""}`],
    ["python", `${leg.facts.python} on ${leg.facts.platform}`], ["suite", data.suite],
    ["oracle values checked", leg.oracle.checked],
    ...Object.entries(leg.digests).map(([name, digest]) => [`digest of ${name}`, digest || "none"])];
  $("run").innerHTML = `<dl>${rows.map(([name, value]) => `<dt>${text(name)}</dt><dd>${text(value)}</dd>`).join("")}</dl>`;
}

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
    "<button class=\"copy\" data-close>close</button></h2><table><tr><th>dtype</th><th>verdict</th>" +
    `<th class="n">compared</th><th class="n">samples</th><th class="n">ms</th></tr>${rows}</table>` +
    bad.map((index) => entry(item, index, verdictOf(item, index), bad.length === 1)).join("");
  $("detail").showModal();
}

document.addEventListener("click", (event) => {
  const words = ["cell", "view", "verdict", "copy", "more", "close", "leg", "result", "subjects"];
  const { dataset } = event.target.closest(words.map((word) => `[data-${word}]`).join()) || { dataset: {} };
  if (dataset.cell) openCell(...dataset.cell.split(",").map(Number));
  else if (dataset.result) openResult(Number(dataset.result.split(",")[0]), dataset.result.replace(/^\d+,/, ""));
  else if (dataset.leg) { view = "matrix"; $("leg").value = dataset.leg; chooseLeg(Number(dataset.leg)); }
  else if ("subjects" in dataset) { subjectsShown += SUBJECTS; draw(); }
  else if (dataset.view) { view = dataset.view; shown = PAGE; history.replaceState(null, "", "#show-" + view); draw(); }
  else if (dataset.verdict) {
    const letter = Object.keys(letters).find((key) => letters[key] === dataset.verdict);
    if (view === "overview") view = "failures";
    $("verdict").value = $("verdict").value === letter ? "" : letter;
    draw();
  } else if (dataset.copy) navigator.clipboard.writeText(dataset.copy);
  else if ("more" in dataset) { shown += PAGE; draw(); }
  else if ("close" in dataset || event.target === $("detail")) $("detail").close();
});
let waiting;
$("text").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(draw, 150); });
for (const id of ["verdict", "property", "dtype"]) $(id).addEventListener("change", () => { shown = PAGE; draw(); });
$("leg").addEventListener("change", () => chooseLeg(Number($("leg").value)));
$("leg").innerHTML = data.legs.map((entry, index) => `<option value="${index}">${text(entry.name)}</option>`).join("");
if (data.legs.length) chooseLeg(0);
