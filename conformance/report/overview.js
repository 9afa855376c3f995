"use strict";
/* Draw the first view: all legs side by side. page.js, which the page includes after this file, defines the data and the
   helpers. */
const SUBJECTS = 50;
let gathered, subjectsShown = SUBJECTS;

const column = (entry) => `${text(entry.mode)}<br><span class="kind">${text(entry.build)}</span>`;
const several = () => new Set(data.legs.map((entry) => entry.target.name)).size > 1;
const bad = (letter) => data.unexpected.includes(letter);

/* Collect the worst letter and the counts of each property in each leg, and the unexpected results by subject. */
function gather() {
  const properties = new Map(), subjects = new Map();
  data.legs.forEach((entry, number) => {
    for (const item of entry.cases) {
      const found = passing(entry, item);
      if (!found.length) continue;
      const name = entry.properties[item[1]], kind = item[6];
      /* A run has about a thousand behaviours, so each row is an area and not a behaviour. */
      const shownName = data.kinds[kind] === "api" ? entry.subjects[item[0]] : name, key = `${kind} ${shownName}`;
      if (!properties.has(key)) properties.set(key, { kind, name: shownName, cells: [] });
      const row = properties.get(key).cells;
      row[number] ||= { letter: ".", bad: 0, count: 0 };
      found.forEach(([index, letter]) => {
        const dtype = item[2][index];
        row[number].count += 1;
        row[number].letter = worst(row[number].letter + letter);
        if (!bad(letter)) return;
        row[number].bad += 1;
        const subject = entry.subjects[item[0]], id = `${name}/${subject}@${entry.dtypes[dtype]}`;
        if (!subjects.has(subject)) subjects.set(subject, new Map());
        subjects.get(subject).set(id, []);
      });
    }
  });
  /* Add the verdict of each unexpected result in every leg, because the legs in which the result passes are informative too. */
  data.legs.forEach((entry, number) => {
    for (const item of entry.cases) {
      const rows = subjects.get(entry.subjects[item[0]]);
      if (!rows) continue;
      const start = `${entry.properties[item[1]]}/${entry.subjects[item[0]]}@`;
      item[2].forEach((dtype, index) => {
        const row = rows.get(start + entry.dtypes[dtype]);
        if (row) row[number] = verdictOf(item, index);
      });
    }
  });
  const groups = [...subjects].map(([subject, rows]) => {
    const letters = [...rows.values()].flatMap((row) => row.filter((letter) => letter && bad(letter)));
    return { subject, rows: [...rows], letters: letters.join(""), count: letters.length };
  });
  groups.sort((a, b) => order.indexOf(worst(a.letters)) - order.indexOf(worst(b.letters)) || b.count - a.count);
  const sorted = [...properties.values()].sort((a, b) => a.kind - b.kind || a.name.localeCompare(b.name));
  return { properties: sorted, groups };
}

function legTable() {
  const words = ["as expected", "unexpected", "not run", "incomplete"];
  const names = Object.keys(data.totals);
  return "<table><thead><tr><th>mode</th><th>torch</th><th>state</th>" +
    (several() ? "<th>target</th>" : "") + names.map((name) => `<th class="n">${name}</th>`).join("") +
    '<th class="n">minutes</th></tr></thead><tbody>' +
    data.legs.map((entry, number) => `<tr><td><button class="link" data-leg="${number}">${text(entry.mode)}` +
      `</button></td><td>${text(entry.torch)}</td><td>${words[entry.exit]}</td>` +
      (several() ? `<td>${text(entry.target.name)}</td>` : "") +
      names.map((name) => `<td class="n">${(entry.totals[name] || 0).toLocaleString()}</td>`).join("") +
      `<td class="n">${(entry.seconds / 60).toFixed(1)}</td></tr>`).join("") + "</tbody></table>";
}

/* Draw the properties of one subject kind in all legs. Each row is a property, or an area of behaviours. */
function propertyTable(properties) {
  const cell = (found) => !found ? "<td></td>"
    : `<td><b class="v-${letters[found.letter]}" title="${found.count} results">` +
      `${found.bad ? `${found.bad} of ${found.count}` : found.count}</b></td>`;
  return "<table><thead><tr><th>property</th>" + data.legs.map((entry) => `<th>${column(entry)}</th>`).join("") +
    `<th>${term("requirement")}</th></tr></thead><tbody>` + properties.map(({ name, cells: row }) => `<tr><th scope="row">${text(name)}</th>` +
      data.legs.map((_, number) => cell(row[number])).join("") +
      `<td class="said">${text(data.promises[name] || data.areas[name] || "")}${documented(name)}</td></tr>`).join("") + "</tbody></table>";
}
function propertyTables(properties) {
  return data.kinds.map((kind, number) => {
    const of = properties.filter((entry) => entry.kind === number);
    return of.length ? `<details class="item"><summary><b>${KIND_NAMES[kind]}</b> <span class="kind">${of.length} ` +
      `${kind === "api" ? "areas" : "properties"}</span></summary><div class="scroll">${propertyTable(of)}</div></details>` : "";
  }).join("");
}

/* Draw one subject: its unexpected results in all legs, and the repro command of the first result of each leg. */
function subjectEntry(group, open) {
  const counts = new Map();
  for (const letter of group.letters) counts.set(letter, (counts.get(letter) || 0) + 1);
  const marks = [...counts].sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]))
    .map(([letter, count]) => `<span class="chip v-${letters[letter]}">${count} ${letters[letter]}</span>`).join(" ");
  const table = () => "<table><thead><tr><th>" + term("result") + "</th>" +
    data.legs.map((entry) => `<th>${column(entry)}</th>`).join("") + "</tr></thead><tbody>" +
    group.rows.map(([id, row]) => `<tr><th>${text(id)}</th>` + data.legs.map((_, number) => row[number]
      ? `<td><button class="v-${letters[row[number]]}" data-result="${number},${text(id)}">${letters[row[number]]}</button></td>`
      : "<td></td>").join("") + "</tr>").join("") + "</tbody></table>";
  const repeats = data.legs.map((entry, number) => {
    const found = group.rows.find(([, row]) => row[number] && bad(row[number]));
    if (!found) return "";
    const line = commandOf(entry, found[0]), detail = entry.details[found[0]] || {};
    const failure = (detail.failures || [])[0];
    const said = failure ? `${failure.kind}: ${failure.message.split("\n")[0]}` : (detail.notes || [""])[0];
    return `<p>${column(entry).replace("<br>", " ")} ${text(said.slice(0, 300))}<br><code>${text(line)}</code>` +
      `<button class="copy" data-copy="${text(line)}">copy</button></p>`;
  }).join("");
  return `<details class="item"${open ? " open" : ""}><summary><code>${text(group.subject)}</code> ${marks}</summary>` +
    `<div class="scroll">${table()}</div>${repeats}</details>`;
}

/* Return the HTML of a collapsed snippet. */
const scriptOf = (script) => '<details class="script"><summary>script that shows it</summary>' +
  `<p><button class="copy" data-copy="${text(script)}">copy</button></p>` +
  `<pre tabindex="0">${text(script)}</pre></details>`;

/* Return the HTML table of the causes: the number of results, and the result to inspect first. */
function causeTable() {
  return "<table><thead><tr><th>results</th><th>of</th><th>look first at</th><th>command</th></tr></thead><tbody>" +
    data.causes.map((cause) => {
      const line = commandOf(data.legs[cause.leg], cause.id);
      return `<tr><td>${text(cause.counts)}</td><td>${text(cause.name)}</td>` +
        `<td class="said"><button class="link" data-result="${cause.leg},${text(cause.id)}">${text(cause.id)}</button><br>` +
        `${text(cause.kind)}: ${text(cause.said)}${cause.pattern ? `<br><strong>${text(cause.pattern)}</strong>` : ""}` +
        `${cause.script ? scriptOf(cause.script) : ""}</td>` +
        `<td><button class="copy" data-copy="${text(line)}">copy</button></td></tr>`;
    }).join("") + "</tbody></table>";
}

/* Return the HTML of a leg's level: the level that it holds, or the results that are missing for a level, by cause. */
function levelEntry(entry) {
  const name = data.legs.length > 1 ? `${text(data.legs[entry.leg].name)}: ` : "";
  const share = `${entry.passed.toLocaleString()} of ${entry.due.toLocaleString()} results pass`;
  if (entry.holds) return `<p>${name}<b>holds ${text(entry.level)}</b> (${share})</p>`;
  /* A partial run supports no level. */
  if (entry.unfit.length) return `<p>${name}This run gives no level: ${text(entry.unfit[0])}.</p>`;
  const rows = entry.blockers.map((one) => `<tr><td class="n">${one.count.toLocaleString()}</td><td>${text(one.name)}</td>` +
    `<td class="said"><button class="link" data-result="${entry.leg},${text(one.example)}">${text(one.example)}</button><br>` +
    `${text(one.failure_text)}</td></tr>`).join("");
  return `<p>${name}<b>${entry.missing.toLocaleString()} result${entry.missing === 1 ? " is" : "s are"} missing for ${text(entry.level)}</b> (${share})` +
    `${entry.more ? `, of ${entry.blockers.length + entry.more} causes` : ""}</p>` +
    (rows ? `<div class="scroll short"><table><thead><tr><th>results</th><th>of</th><th>look first at</th></tr></thead>` +
      `<tbody>${rows}</tbody></table></div>` : "");
}

function changesEntry(changes) {
  const words = { regressed: "worse", changed: "fail in another way", vanished: "gone", fixed: "fixed" };
  const sorts = Object.entries(changes.sorts).filter(([, sort]) => sort.count);
  return (sorts.length ? "" : "<p>Every verdict is as it was.</p>") +
    sorts.map(([name, sort]) => `<details class="item"${name === "fixed" ? "" : " open"}><summary><b>` +
      `${sort.count.toLocaleString()} ${words[name]}</b></summary>` + sort.first.map((one) =>
        `<div><code>${text(one.id)}</code> <span class="kind">${text(one.words)}</span></div>`).join("") +
      (sort.count > sort.first.length ? `<p>and ${sort.count - sort.first.length} more: <code>conformance diff</code></p>`
        : "") + "</details>").join("") +
    changes.notes.map((note) => `<p class="kind">${text(note)}</p>`).join("");
}

const levelView = () => data.opening && data.opening.levels.length
  ? `<h2>${term("level", "Level")}</h2>${data.opening.levels.map(levelEntry).join("")}` : "";
const changesView = () => data.opening && data.opening.changes
  ? `<h2>Since the last run</h2>${changesEntry(data.opening.changes)}` : "";

function drawOverview() {
  if (!gathered || gathered.predicate !== predicate) gathered = { ...gather(), predicate };
  const groups = gathered.groups;
  const total = groups.reduce((sum, group) => sum + group.count, 0);
  $("count").textContent = `${total.toLocaleString()} unexpected results of ${groups.length.toLocaleString()} subjects`;
  $("overview").innerHTML = levelView() +
    (data.causes.length ? `<h2>Unexpected, by ${term("cause")}</h2><div class="scroll short" tabindex="0">${causeTable()}</div>` : "") +
    changesView() + `<h2>${term("leg", "Legs")}</h2><div class="scroll short" tabindex="0">${legTable()}</div>` +
    `<h2>Unexpected, by ${term("subject")}</h2>` + (groups.length
      ? groups.slice(0, subjectsShown).map((group, index) => subjectEntry(group, index === 0)).join("")
      : '<p class="none">Nothing unexpected.</p>') +
    (groups.length > subjectsShown
      ? `<button class="more" data-subjects>show more (${groups.length - subjectsShown} left)</button>` : "") +
    `<h2>${term("property", "Properties")}</h2>${propertyTables(gathered.properties)}`;
}

/* Show one result of one leg in full. */
function openResult(number, id) {
  if (data.legs[number] !== leg) chooseLeg(number);
  const subject = leg.subjects.indexOf(id.slice(id.indexOf("/") + 1, id.lastIndexOf("@")));
  openCell(subject, leg.properties.indexOf(id.slice(0, id.indexOf("/"))));
}
