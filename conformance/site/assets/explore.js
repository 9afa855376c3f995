"use strict";
/* Show one operator, property, area or result on all backends. data/index.js calls conformanceIndex, and each shard calls
   conformanceShard. The fragment of the address selects the view: op=, property=, result=, q= or diff=. */
let index;
const shards = new Map(), waiting = new Map();
const $ = (id) => document.getElementById(id);
const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const text = (value) => String(value).replace(/[&<>"']/g, (char) => escapes[char]);
const SHOWN = 200;

const CRC = Array.from({ length: 256 }, (_, number) => {
  let value = number;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value >>> 0;
});
/* Return the shard of a subject: the CRC-32 of its UTF-8 bytes, as in conformance/site/explore.py. */
function shardOf(subject) {
  let value = 0xffffffff;
  for (const byte of new TextEncoder().encode(subject)) value = CRC[(value ^ byte) & 255] ^ (value >>> 8);
  return ((value ^ 0xffffffff) >>> 0) % index.shards;
}

function numbers(ranges) {
  return ranges.split(",").flatMap((part) => {
    const [first, last] = part.split("-").map(Number);
    return Array.from({ length: (last ?? first) - first + 1 }, (_, step) => first + step);
  });
}

function conformanceShard(data) {
  shards.set(data.number, data);
  (waiting.get(data.number) || (() => {}))();
}
function load(number) {
  if (shards.has(number)) return Promise.resolve();
  return new Promise((done, failed) => {
    waiting.set(number, done);
    const script = document.createElement("script");
    script.src = `data/shard-${number}.js`;
    script.onerror = () => failed(new Error(`data/shard-${number}.js cannot be loaded; reload the page`));
    document.head.append(script);
  });
}
async function loadAll(which) {
  let done = 0;
  for (const number of which) {
    await load(number);
    done += 1;
    $("progress").textContent = done < which.length ? `Loading ${done} of ${which.length} files of data` : "";
  }
}
const everything = () => Array.from({ length: index.shards }, (_, number) => number);

/* Yield each case of the loaded shards: its name, and its dtypes and verdict letters in each series (line) that has it. */
function* cases(which) {
  for (const number of which) {
    const shard = shards.get(number);
    for (const [name, groups] of Object.entries(shard.cases)) {
      const lines = new Map();
      for (const [dtypes, letters, ranges] of groups) {
        const list = shard.dtypes[dtypes];
        const all = letters.length === 1 ? letters.repeat(list.length) : letters;
        for (const line of numbers(ranges)) lines.set(line, { dtypes: list, letters: all });
      }
      yield { name, shard, lines, slash: name.indexOf("/") };
    }
  }
}
const propertyOf = (entry) => entry.name.slice(0, entry.slash);
const subjectOf = (entry) => entry.name.slice(entry.slash + 1);
const bad = (letter) => index.unexpected.includes(letter);
const word = (letter) => index.verdicts[letter] || "absent";
const order = () => Object.keys(index.verdicts).join("");
const worst = (all) => [...all].sort((a, b) => order().indexOf(a) - order().indexOf(b))[0];
const link = (key, value, label) => `<a href="#${key}=${encodeURIComponent(value)}">${text(label ?? value)}</a>`;
const lineName = (line) => `${line.name}, ${line.mode}, torch ${line.torch} ${line.kind}`;
const head = (lines) => lines.map((number) => {
  const line = index.lines[number];
  return `<th scope="col"><a href="backends/${encodeURIComponent(line.backend)}.html#${encodeURIComponent(`${line.slug}-${line.mode}`)}">` +
    `${text(line.name)}</a><br><small>${text(line.mode)}, ${text(line.torch)} ${text(line.kind)}</small></th>`;
}).join("");
const squares = ({ dtypes, letters }) => {
  const title = dtypes.map((dtype, place) => `${dtype} ${word(letters[place])}`).join(", ");
  const marks = letters === letters[0].repeat(letters.length) ? letters[0] : letters;
  return `<span class="squares" role="img" aria-label="${text(title)}" title="${text(title)}">` +
    [...marks].map((letter) => `<i class="v-${word(letter)}"></i>`).join("") + "</span>";
};
/* Return a note if a result fails on exactly one backend and passes on others, else "". Variants of backends are ignored. */
function alone(found) {
  const failing = new Set(), passing = new Set();
  for (const [number, letters] of found.filter(([line]) => !index.lines[line].standIn)) ([...letters].some(bad) ? failing : passing).add(index.lines[number].backend);
  const only = [...failing].filter((backend) => !passing.has(backend));
  return failing.size === 1 && only.length === 1 && passing.size ? `fails on ${only[0]} only` : "";
}
const wide = (label, body) => `<div class="wide" tabindex="0" role="region" aria-label="${text(label)}"><table>${body}</table></div>`;

/* Draw a table of cases × series (lines). The first row has the passed results of each series. */
function grid(entries, label, nameOf) {
  const lines = [...new Set(entries.flatMap((entry) => [...entry.lines.keys()]))].sort((a, b) => a - b);
  const sums = lines.map((number) => {
    let passed = 0, total = 0, declared = 0;
    for (const entry of entries) {
      for (const letter of (entry.lines.get(number) || { letters: "" }).letters) {
        total += 1;
        passed += letter === ".";
        declared += letter === "u";
      }
    }
    return `<td>${passed.toLocaleString()} of ${total.toLocaleString()} pass${declared ? `<br>${declared} declared unsupported` : ""}</td>`;
  });
  return wide(label, `<thead><tr><th scope="col">${text(label)}</th>${head(lines)}<th scope="col">note</th></tr></thead><tbody>` +
    `<tr><th scope="row">all</th>${sums.join("")}<td></td></tr>` + entries.map((entry) =>
    `<tr><th scope="row">${nameOf(entry)}</th>` + lines.map((number) => {
      const found = entry.lines.get(number);
      if (!found) return "<td></td>";
      const letter = worst(found.letters), dtype = found.dtypes[found.letters.indexOf(letter)];
      return `<td><a href="#result=${encodeURIComponent(`${entry.name}@${dtype}`)}">${squares(found)}</a></td>`;
    }).join("") + `<td>${text(alone([...entry.lines].map(([number, found]) => [number, found.letters])))}</td></tr>`).join("") +
    "</tbody>");
}

async function showSubject(subject) {
  const number = shardOf(subject);
  await loadAll([number]);
  const found = [...cases([number])].filter((entry) => subjectOf(entry) === subject)
    .sort((a, b) => a.name.localeCompare(b.name));
  if (!found.length) return `<p>No backend has a result of ${text(subject)}.</p>`;
  const placed = found.filter((entry) => shards.get(number).placements[entry.name])
    .flatMap((entry) => Object.entries(shards.get(number).placements[entry.name])
      .map(([place, ranges]) => `<li>${text(place)}: ${numbers(ranges).map((line) => text(lineName(index.lines[line]))).join("; ")}</li>`));
  const area = index.areas[subject];
  return `<h2>${text(subject)}</h2><p>${area ? `Area: ${text(area)}.` : `Family ${text(index.subjects[subject])}.`} ` +
    `${link("q", `op:${quoted(subject)} verdict:unexpected`, "Its unexpected results")}</p>` +
    grid(found, "property", (entry) => link("property", propertyOf(entry)) +
      `<br><small>${text((index.properties[propertyOf(entry)] || {}).promise || "")}</small>`) +
    (placed.length ? `<h3>Placement</h3><ul>${placed.join("")}</ul>` : "");
}
const documented = (name) => {
  const page = (index.properties[name] || {}).documentation;
  return page ? ` <a href="${text(page)}" rel="noreferrer">PyTorch on ${text(name)}</a>` : "";
};
const quoted = (value) => (/[\s(),":]/.test(value) ? `"${value}"` : value);

async function showProperty(name) {
  await loadAll(everything());
  const found = [...cases(everything())].filter((entry) => propertyOf(entry) === name)
    .sort((a, b) => a.name.localeCompare(b.name));
  const known = index.properties[name];
  if (!known) return `<p>No backend has a result of ${text(name)}.</p>`;
  return `<h2>${text(name)}</h2><p>${text(known.promise)}${documented(name)}</p>` +
    grid(found, "subject", (entry) => link("op", subjectOf(entry)));
}

/* Return the history of one result in one series (line): each verdict with the first run (night) that had it. */
function history(shard, id, number, letter) {
  const line = index.lines[number], noted = ((shard.history[id] || {})[number] || [[0, letter]]);
  return noted.map(([night, one], place) => {
    const until = place + 1 < noted.length ? noted[place + 1][0] : line.nights.length;
    return { letter: one, from: line.nights[night], nights: until - night };
  });
}

async function showResult(id) {
  const at = id.lastIndexOf("@"), slash = id.indexOf("/"), name = id.slice(0, at), dtype = id.slice(at + 1);
  const number = shardOf(id.slice(slash + 1, at));
  await loadAll([number]);
  const shard = shards.get(number), entry = [...cases([number])].find((one) => one.name === name);
  if (!entry || at < 0 || slash < 0) return `<p>No backend has a result ${text(id)}.</p>`;
  const rows = [...entry.lines].filter(([, found]) => found.dtypes.includes(dtype)).map(([line, found]) =>
    [line, found.letters[found.dtypes.indexOf(dtype)]]);
  const promise = (index.properties[propertyOf(entry)] || {}).promise || "";
  return `<h2><code>${text(id)}</code></h2><p>${text(promise)}${documented(propertyOf(entry))}</p><p>${link("op", subjectOf(entry))} · ` +
    `${link("property", propertyOf(entry))} · ${text(alone(rows))}</p>` +
    wide("Verdicts", '<thead><tr><th scope="col">backend</th><th scope="col">verdict</th><th scope="col">since</th>' +
      '<th scope="col">history</th><th scope="col">what it says</th><th scope="col">repeat</th></tr></thead><tbody>' +
      rows.map(([line, letter]) => {
        const where = index.lines[line], stretches = history(shard, id, line, letter), last = stretches[stretches.length - 1];
        const said = ((shard.details[id] || {})[line] || []).map((place) => text(shard.texts[place])).join("<br>");
        const at = where.nights[where.shown];
        const since = stretches.length > 1 && last.letter === letter ? `${last.from.day}, ${last.from.backend || `torch ${last.from.torch}`}`
          : stretches.length > 1 ? `shown is the run of ${at.day}` : `at least ${last.from.day}`;
        return `<tr><th scope="row">${text(lineName(where))}</th><td><b class="chip v-${word(letter)}">${word(letter)}</b></td>` +
          `<td>${text(since)}</td><td>${stretches.map((part) => `<span class="squares" title="${text(part.from.day)}">` +
            `<i class="v-${word(part.letter)}"></i></span> ${part.nights} × ${word(part.letter)}`).join(", ")}</td>` +
          `<td>${said}</td><td><code>conformance repro ${text(id)} --target ${text(where.target)} --mode ${text(where.mode)}</code></td></tr>`;
      }).join("") + "</tbody>");
}

/* Return the numbers of the shards that a query needs: only the shards of the operators that the query names, if a result must
   match all terms of the query; else all shards. */
function needed(query) {
  if (/[()*"]|\bor\b|\bnot\b/i.test(query)) return everything();
  const named = query.split(/\s+/).map((term) => /^(?:op|subject):(.+)$/i.exec(term)).find(Boolean);
  if (!named) return everything();
  const wanted = named[1].toLowerCase().split(",");
  return [...new Set(Object.keys(index.subjects).filter((name) => wanted.includes(name.toLowerCase())).map(shardOf))];
}

async function showQuery(query) {
  const predicate = conformanceQuery.parse(query), which = needed(query);
  if (/(^|[\s(-])seconds:/i.test(query)) throw new Error("the site keeps no seconds of results; leave seconds: out");
  await loadAll(which);
  const found = [];
  let count = 0;
  for (const entry of cases(which)) {
    const { shard } = entry, rows = new Map(), placed = new Map();
    for (const [place, ranges] of Object.entries(shard.placements[entry.name] || {})) {
      for (const line of numbers(ranges)) placed.set(line, place);
    }
    for (const [number, { dtypes, letters }] of entry.lines) {
      const line = index.lines[number];
      dtypes.forEach((dtype, place) => {
        const id = `${entry.name}@${dtype}`;
        const row = {
          id, op: subjectOf(entry), family: index.subjects[subjectOf(entry)] || "", property: propertyOf(entry), dtype,
          verdict: word(letters[place]), mode: line.mode, placement: placed.get(number) || "", target: line.backend,
          torch: line.torch, seconds: 0,
          get texts() { return ((shard.details[id] || {})[number] || []).map((one) => shard.texts[one]); },
          get kinds() {
            return ((shard.kinds[id] || {})[number] || "").split(",").filter(Boolean);
          },
        };
        if (!predicate(row)) return;
        count += 1;
        if (!rows.has(id)) rows.set(id, []);
        rows.get(id).push([number, letters[place]]);
      });
    }
    for (const [id, lines] of rows) found.push({ id, lines });
  }
  const rank = ({ lines }) => order().indexOf(worst(lines.map(([, letter]) => letter).join("")));
  found.sort((a, b) => rank(a) - rank(b) || b.lines.length - a.lines.length || a.id.localeCompare(b.id));
  return `<h2>${count.toLocaleString()} results of ${found.length.toLocaleString()} names match</h2>` +
    (found.length ? wide("Results", '<thead><tr><th scope="col">result</th><th scope="col">verdicts</th></tr></thead><tbody>' +
      found.slice(0, SHOWN).map(({ id, lines }) => `<tr><th scope="row">${link("result", id)}</th><td>` +
        [...new Set(lines.map(([, letter]) => letter))].map((letter) => {
          const of = lines.filter(([, one]) => one === letter);
          const names = of.slice(0, 4).map(([number]) => lineName(index.lines[number])).join("; ");
          return `<b class="chip v-${word(letter)}">${of.length} ${word(letter)}</b> <small>${text(names)}` +
            `${of.length > 4 ? ` and ${of.length - 4} more` : ""}</small>`;
        }).join("<br>") + "</td></tr>").join("") + "</tbody>") : "") +
    (found.length > SHOWN ? `<p>and ${(found.length - SHOWN).toLocaleString()} more names; narrow the query</p>` : "");
}

/* Return a name of a run that stays valid when the site is rebuilt: backend, mode, build and run. */
const runName = (line, night) => [line.backend, line.mode, line.slug, night.run].join("~");
function findRun(name) {
  const parts = name.split("~"), run = parts.slice(3).join("~");
  const number = index.lines.findIndex((line) => line.backend === parts[0] && line.mode === parts[1] && line.slug === parts[2]);
  const night = number < 0 ? -1 : index.lines[number].nights.findIndex((one) => one.run === run);
  if (night < 0) throw new Error(`there is no run ${name} on this site; choose one of the list`);
  return { number, night };
}
function letterAt(shard, id, { number, night }, now) {
  const noted = (shard.history[id] || {})[number];
  if (!noted) return now;
  let letter = "";
  for (const [since, one] of noted) if (since <= night) letter = one;
  return letter;
}
async function showDiff(words) {
  const [oldName, newName] = words.split("..");
  const choice = (id, chosen) => `<label>${id} run <select id="${id}">` + index.lines.flatMap((line) => [...line.nights].reverse()
    .map((night) => [runName(line, night), `${lineName(line)}, ${night.day}`]))
    .map(([value, label]) => `<option value="${text(value)}"${value === chosen ? " selected" : ""}>${text(label)}</option>`).join("") +
    "</select></label>";
  const form = `<h2>Difference of two runs</h2><div class="filters">${choice("old", oldName)}${choice("new", newName)}` +
    '<button id="compare">Compare</button></div>';
  if (!oldName || !newName) return form;
  const before = findRun(oldName), after = findRun(newName), found = [];
  await loadAll(everything());
  for (const shard of shards.values()) {
    const states = [before, after].map((run) => {
      const state = new Map();
      for (const entry of cases([shard.number])) {
        const now = entry.lines.get(run.number);
        if (now) now.dtypes.forEach((dtype, place) => state.set(`${entry.name}@${dtype}`, now.letters[place]));
      }
      for (const id of Object.keys(shard.history)) {
        if (!shard.history[id][run.number]) continue;
        const letter = letterAt(shard, id, run, "");
        if (letter) state.set(id, letter); else state.delete(id);
      }
      return state;
    });
    for (const id of new Set([...states[0].keys(), ...states[1].keys()])) {
      const [was, now] = states.map((state) => state.get(id) || "");
      if (was !== now) found.push([id, was, now]);
    }
  }
  const rank = ([, , letter]) => (letter ? order().indexOf(letter) : -1);
  found.sort((a, b) => rank(a) - rank(b) || a[0].localeCompare(b[0]));
  return `${form}<p>${found.length.toLocaleString()} results differ.</p>` + (found.length ? wide("Differences",
    '<thead><tr><th scope="col">result</th><th scope="col">old</th><th scope="col">new</th></tr></thead><tbody>' +
    found.slice(0, SHOWN * 5).map(([id, was, now]) => `<tr><th scope="row">${link("result", id)}</th>` +
      [was, now].map((letter) => `<td><b class="chip v-${word(letter)}">${word(letter)}</b></td>`).join("") + "</tr>").join("") +
    "</tbody>") : "");
}

function start() {
  const sums = index.lines.map((line) => line.nights[line.shown]);
  return `<p>${index.lines.length} columns of backends, modes and builds; ${Object.keys(index.subjects).length.toLocaleString()} operators, ` +
    `modules and areas; ${Object.keys(index.properties).length.toLocaleString()} properties; ` +
    `${sums.reduce((sum, night) => sum + night.planned, 0).toLocaleString()} results.</p><ul>` +
    `<li>${link("q", "verdict:unexpected", "Everything unexpected")}</li><li>${link("diff", "", "Difference of two runs")}</li>` +
    Object.entries(index.areas).filter(([name]) => name in index.subjects)
      .map(([name, about]) => `<li>${link("op", name)}: ${text(about)}</li>`).join("") + "</ul>";
}

let turn = 0;
async function draw() {
  const mine = ++turn, words = new URLSearchParams(location.hash.slice(1));
  const views = { op: showSubject, area: showSubject, property: showProperty, result: showResult, q: showQuery, diff: showDiff };
  const key = Object.keys(views).find((name) => words.has(name));
  $("mistake").hidden = true;
  $("query").value = words.get("q") || "";
  let shown;
  try {
    shown = key ? await views[key](words.get(key)) : start();
  } catch (error) {
    shown = "";
    $("mistake").textContent = error.message;
    $("mistake").hidden = false;
    $("progress").textContent = "";
  }
  if (mine !== turn) return;
  $("view").innerHTML = shown;
  if ($("compare")) {
    $("compare").addEventListener("click", () => {
      location.hash = `diff=${encodeURIComponent(`${$("old").value}..${$("new").value}`)}`;
    });
  }
}

function conformanceIndex(data) { index = data; }
window.addEventListener("hashchange", draw);
document.addEventListener("DOMContentLoaded", () => {
  if (!index) {
    $("mistake").textContent = "data/index.js cannot be loaded; reload the page";
    $("mistake").hidden = false;
    return;
  }
  $("search").hidden = false;
  $("search").addEventListener("submit", (event) => event.preventDefault());
  const vocabulary = {
    op: Object.keys(index.subjects), family: [...new Set(Object.values(index.subjects))], property: Object.keys(index.properties),
    target: [...new Set(index.lines.map((line) => line.backend))], torch: [...new Set(index.lines.map((line) => line.torch))],
  };
  const fillIn = (id, values) => { $(id).innerHTML = values.map((value) => `<option value="${text(value)}"></option>`).join(""); };
  fillIn("subjects", vocabulary.op.sort());
  fillIn("properties", vocabulary.property.sort());
  $("query").addEventListener("input", () => fillIn("words", conformanceQuery.complete($("query").value, vocabulary)));
  for (const [id, key] of [["query", "q"], ["subject", "op"], ["property", "property"]]) {
    $(id).addEventListener("change", () => { if ($(id).value.trim()) location.hash = `${key}=${encodeURIComponent($(id).value.trim())}`; });
  }
  draw();
});
