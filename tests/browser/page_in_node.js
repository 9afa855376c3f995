/* Runs the script of a report page with a minimal fake of a browser's document, and prints the HTML of a view. */
const fs = require("fs");
const page = fs.readFileSync(process.argv[2], "utf8"), view = process.argv[3];
const part = (start) => page.split(start)[1].split("</script>")[0];
const elements = new Map(), listeners = {};
const element = (id) => {
  if (!elements.has(id)) {
    elements.set(id, {
      id, value: "", innerHTML: "", textContent: "", hidden: false, dataset: {}, offsetHeight: 1e9, clientHeight: 1, scrollTop: 0,
      classList: { toggle() {} }, setAttribute() {}, removeAttribute() {}, addEventListener(name, call) { this[name] = call; },
      querySelector(word) { return element(`${id} ${word}`); }, closest(word) { return element(`closest ${word}`); },
      insertAdjacentHTML(_, text) { this.innerHTML += text; }, showModal() { this.open = true; }, close() {},
    });
  }
  return elements.get(id);
};
element("data").textContent = part('type="application/json">');
for (const id of ["matrix tbody"]) element(id).offsetHeight = 0;
global.document = {
  getElementById: element, querySelector: element, querySelectorAll: () => [],
  addEventListener(name, call) { listeners[name] = call; },
};
global.location = { hash: "" };
global.window = { addEventListener() {} };
global.history = { replaceState() {} };
require("vm").runInThisContext(part("<script>"));
const click = (dataset) => listeners.click({ target: { closest: () => ({ dataset }) } });
for (const name of ["matrix", "failures", "notes", "run", "overview"]) click({ view: name });
if (view.startsWith("result:")) { click({ result: view.slice(7) }); process.stdout.write(element("detail").innerHTML); }
else if (view.startsWith("leg:")) { click({ leg: view.slice(4) }); process.stdout.write(element("state").innerHTML); }
else { click({ view }); process.stdout.write(element(view).innerHTML + element("state").innerHTML + element("problems").innerHTML); }
