"use strict";
/* Draw the matrices of one leg, one per subject kind. page.js, which the page includes after this file, defines the data and the
   helpers. */
const KIND_NAMES = { operator: "Operators", overload: "Overloads", module: "Modules", optimizer: "Optimizers",
  device: "Device", api: "Behaviours", collective: "Collectives", world: "Worlds", other: "Other" };
/* Subject kinds with few subjects and many properties, which are drawn as a tree because a matrix would be nearly empty. */
const TREES = ["api", "device", "world"];
let kindShown = "";

/* Return the HTML of a cell: one square for each dtype, or a single letter if all dtypes have the same verdict. */
function squares(item, found) {
  const all = found.map(([, letter]) => letter).join("");
  if (all === all[0].repeat(all.length)) return `<i class="v-${letters[all[0]]}">${all[0]}</i>`;
  return [...all].map((letter) => `<i class="v-${letters[letter]}"></i>`).join("");
}
function cellButton(item, found) {
  const counts = new Map();
  for (const [, letter] of found) counts.set(letters[letter], (counts.get(letters[letter]) || 0) + 1);
  const words = [...counts].map(([name, count]) => `${count} ${name}`).join(", ");
  return `<button class="cell" data-cell="${item[0]},${item[1]}" aria-label="` +
    `${text(leg.properties[item[1]])} ${text(leg.subjects[item[0]])}: ${words}">${squares(item, found)}</button>`;
}

function drawMatrix(chosen) {
  const kinds = new Map();
  for (const entry of chosen) {
    const kind = data.kinds[entry[0][6]];
    if (!kinds.has(kind)) kinds.set(kind, []);
    kinds.get(kind).push(entry);
  }
  const there = data.kinds.filter((kind) => kinds.has(kind));
  if (!there.includes(kindShown)) kindShown = there[0] || "";
  $("kinds").innerHTML = there.map((kind) => `<button data-kind="${kind}"` +
    `${kind === kindShown ? ' class="on" aria-pressed="true"' : ' aria-pressed="false"'}>${KIND_NAMES[kind]} ` +
    `<small>${new Set(kinds.get(kind).map(([item]) => (TREES.includes(kind) ? item[1] : item[0]))).size.toLocaleString()}` +
    "</small></button>").join("");
  const tree = TREES.includes(kindShown), of = kinds.get(kindShown) || [];
  $("grid").hidden = tree || !of.length;
  $("tree").hidden = !tree && of.length > 0;
  if (!of.length) $("tree").innerHTML = '<p class="none">No result matches.</p>';
  else if (tree) drawTree(of);
  else drawGrid(of);
}

function drawGrid(chosen) {
  const rows = new Map(), columns = new Set();
  for (const [item, found] of chosen) {
    if (!rows.has(item[0])) rows.set(item[0], new Map());
    rows.get(item[0]).set(item[1], [item, found]);
    columns.add(item[1]);
  }
  const list = [...columns].sort((a, b) => leg.properties[a].localeCompare(leg.properties[b]));
  const placed = [...rows.keys()].some((subject) => placement(subject));
  $("matrix thead").innerHTML = '<tr><th scope="col">subject</th>' + list.map((number) => {
    const name = leg.properties[number];
    return `<th scope="col" title="${text(data.promises[name] || name)}"><div>${text(name)}</div></th>`;
  }).join("") + (placed ? '<th class="p" scope="col">placement</th>' : "") + "</tr>";
  const families = new Map();
  for (const subject of rows.keys()) {
    const family = leg.families[subject];
    if (!families.has(family)) families.set(family, []);
    families.get(family).push(subject);
  }
  const lines = [], width = list.length + 1 + placed;
  const named = (number) => leg.subjects[number];
  for (const [family, subjects] of [...families].sort((a, b) => a[0].localeCompare(b[0]))) {
    if (subjects.length > 1) {
      lines.push(`<tr class="family"><th colspan="${width}" scope="colgroup">${text(family)} ` +
        `<small>${subjects.length}</small></th></tr>`);
    }
    for (const subject of subjects.sort((a, b) => named(a).localeCompare(named(b)))) {
      lines.push(`<tr><th scope="row" title="${text(named(subject))}">${text(named(subject))}</th>` + list.map((number) => {
        const entry = rows.get(subject).get(number);
        return entry ? `<td>${cellButton(...entry)}</td>` : "<td></td>";
      }).join("") + (placed ? `<td class="p">${placement(subject)}</td>` : "") + "</tr>");
    }
  }
  fill($("matrix tbody"), $("grid"), lines);
}

/* Draw the behaviours by area, the worst first, each with its requirement. */
function drawTree(chosen) {
  const areas = new Map();
  for (const [item, found] of chosen) {
    if (!areas.has(item[0])) areas.set(item[0], []);
    areas.get(item[0]).push([item, found, worst(found.map(([, letter]) => letter).join(""))]);
  }
  const rank = ([, , letter]) => order.indexOf(letter);
  const list = [...areas].map(([subject, entries]) => {
    entries.sort((a, b) => rank(a) - rank(b) || leg.properties[a[0][1]].localeCompare(leg.properties[b[0][1]]));
    return { subject, entries, unexpected: entries.filter(([, , letter]) => bad(letter)).length };
  }).sort((a, b) => b.unexpected - a.unexpected || leg.subjects[a.subject].localeCompare(leg.subjects[b.subject]));
  $("tree").innerHTML = list.map(({ subject, entries, unexpected }) => {
    const name = leg.subjects[subject], about = data.areas[name] || "";
    const pages = entries.map(([item]) => data.documentation[leg.properties[item[1]]]);
    const shared = pages.every((page) => page === pages[0]);
    return `<details class="item"${unexpected || list.length < 4 ? " open" : ""}><summary><b>${text(name)}</b> ` +
      `<span class="kind">${text(about)}</span> <span class="kind">${(entries.length - unexpected).toLocaleString()} of ` +
      `${entries.length.toLocaleString()} as expected</span></summary>${shared ? documentedAt(pages[0], name) : ""}<ul class="promises">` + entries.map(([item, found]) =>
        `<li>${cellButton(item, found)} <code>${text(leg.properties[item[1]])}</code> ` +
        `<span class="kind">${text(data.promises[leg.properties[item[1]]] || "")}</span>${shared ? "" : documented(leg.properties[item[1]])}</li>`).join("") +
      "</ul></details>";
  }).join("");
}

/* Add rows only when the user scrolls to them, because a full run has 700 rows with 30 cells each. */
let filling = 0;
function fill(body, box, lines) {
  const turn = ++filling;
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
