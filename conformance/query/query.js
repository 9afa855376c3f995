"use strict";
/* The query language for results (docs/query.md), equal to conformance/query/language.py. A row has the keys of
   `KEYS` as strings, `kinds` and `texts` as lists of strings, and `seconds` as a number. */
const conformanceQuery = (() => {
  const KEYS = ["op", "family", "property", "dtype", "verdict", "kind", "mode", "placement", "target", "torch", "id",
    "message", "seconds"];
  const ALIASES = { subject: "op", area: "family", backend: "target" };
  const UNEXPECTED = ["crash", "timeout", "error", "fail", "vacuous", "xpass", "flaky"];
  const CLOSED = {
    verdict: ["unexpected", "expected", ...UNEXPECTED, "xfail", "parity", "unsupported", "skip", "pass"],
    kind: ["value", "metadata", "aliasing", "dtype", "error-type", "message", "refused", "exception", "placement",
      "state", "crash", "timeout", "vacuous", "harness"],
    mode: ["eager", "lazy", "compile", "graph", "distributed"],
    placement: ["native", "composite", "fallback", "refused", "unknown"],
  };
  const WORDS = ["and", "or", "not"], DEPTH = 100, LONGEST = 2000;
  const TOKEN = /\s*(?:([()])|((?:"[^"]*"|[^\s()"])+)|(")|$)/y;

  class QueryError extends Error {
    constructor(words, at, wayOut) {
      super(`the query has ${words} at character ${at + 1}; ${wayOut}`);
      this.at = at;
    }
  }
  const quoted = (text) => `'${text}'`;

  function tokensOf(text) {
    const tokens = [];
    let place = 0;
    for (;;) {
      TOKEN.lastIndex = place;
      const match = TOKEN.exec(text);
      if (!match || TOKEN.lastIndex === place) return tokens;
      const start = TOKEN.lastIndex - (match[1] || match[2] || match[3] || "").length;
      if (match[3]) throw new QueryError("a quotation mark without its end", start, "close it");
      if (match[1] || match[2]) tokens.push({ text: match[1] || match[2], at: start });
      place = TOKEN.lastIndex;
    }
  }

  /* Return the edit distance of two words, to suggest a similar name. */
  function edits(from, to) {
    let row = [...to].map((_, index) => index + 1);
    row.unshift(0);
    [...from].forEach((one, line) => {
      const next = [line + 1];
      [...to].forEach((other, index) => {
        next.push(Math.min(next[index] + 1, row[index + 1] + 1, row[index] + (one === other ? 0 : 1)));
      });
      row = next;
    });
    return row[to.length];
  }
  function meant(word, known) {
    const near = known.map((one) => [edits(word.toLowerCase(), one), one]).sort((a, b) => a[0] - b[0])[0];
    return near[0] <= Math.max(1, near[1].length / 2) ? `did you mean ${quoted(near[1])}?` : `use one of ${known.join(", ")}`;
  }
  const example = (key) => CLOSED[key] ? CLOSED[key][0]
    : { seconds: ">2", dtype: "float32", torch: "2.13*", family: "fft" }[key] || "add";

  /* Cache the results of a comparison by value, because a column has few different values. */
  function remembered(test) {
    const known = new Map();
    return (value) => {
      let answer = known.get(value);
      if (answer === undefined) known.set(value, answer = test(value));
      return answer;
    };
  }

  /* Match a value with stars: the parts between the stars must occur in this order. This takes linear time, while a
     regular expression can take exponential time. */
  function pattern(value) {
    const [first, ...rest] = value.split("*"), last = rest.pop();
    if (last === undefined) return (text) => text === first;
    return (text) => {
      if (!text.startsWith(first)) return false;
      let place = first.length;
      for (const part of rest) {
        const found = text.indexOf(part, place);
        if (found < 0) return false;
        place = found + part.length;
      }
      return text.length - last.length >= place && text.endsWith(last);
    };
  }

  function valuesOf(key, rest, at) {
    const values = [];
    let place = 0;
    for (;;) {
      const found = /^(?:"[^"]*"|[^",])*/.exec(rest.slice(place))[0], value = found.replace(/"/g, "").toLowerCase();
      if (!value) throw new QueryError("an empty value", at + place, "write a value, or remove the comma");
      if (CLOSED[key] && !value.includes("*") && !CLOSED[key].includes(value)) {
        throw new QueryError(`the unknown ${key} ${quoted(value)}`, at + place, meant(value, CLOSED[key]));
      }
      values.push(value);
      place += found.length;
      if (place >= rest.length) return values;
      place += 1;
    }
  }

  function term(text, at) {
    const colon = text.indexOf(":");
    if (text.startsWith('"') || colon < 0) {
      const needle = text.replace(/"/g, "").toLowerCase();
      return (row) => row.id.toLowerCase().includes(needle) || row.texts.some((one) => one.toLowerCase().includes(needle));
    }
    const head = text.slice(0, colon), rest = text.slice(colon + 1), place = at + colon + 1;
    const key = ALIASES[head.toLowerCase()] || head.toLowerCase();
    if (!KEYS.includes(key)) {
      const wayOut = `${meant(head, [...KEYS, ...Object.keys(ALIASES)])}; or quote the word`;
      throw new QueryError(`the unknown key ${quoted(head)}`, at, wayOut);
    }
    if (!rest) throw new QueryError(`no value for ${quoted(key)}`, place, `write one, e.g. ${key}:${example(key)}`);
    if (key === "seconds") {
      const match = /^(>=|<=|>|<)(\d+(?:\.\d*)?|\.\d+)$/.exec(rest);
      if (!match) throw new QueryError(`${quoted(rest)} for seconds`, place, "write a comparison, e.g. seconds:>2");
      const limit = Number(match[2]);
      return { ">": (row) => row.seconds > limit, "<": (row) => row.seconds < limit,
        ">=": (row) => row.seconds >= limit, "<=": (row) => row.seconds <= limit }[match[1]];
    }
    const values = valuesOf(key, rest, place);
    if (key === "message") {
      return (row) => row.texts.some((one) => values.some((value) => one.toLowerCase().includes(value)));
    }
    const patterns = values.map(pattern);
    const holds = (value) => { const lower = value.toLowerCase(); return patterns.some((one) => one(lower)); };
    if (key === "kind") return (row) => row.kinds.some(holds);
    if (key === "id") return (row) => holds(row.id);
    const answer = key !== "verdict" ? remembered(holds)
      : remembered((value) => holds(value) || holds(UNEXPECTED.includes(value) ? "unexpected" : "expected"));
    return (row) => answer(row[key]);
  }

  /* Return the predicate of a query, a function of a row. Throw QueryError for the first syntax error. */
  function parse(text) {
    if (text.length > LONGEST) {
      throw new QueryError(`${text.length} characters`, LONGEST, `shorten it to at most ${LONGEST}`);
    }
    const tokens = tokensOf(text);
    let place = 0;
    const next = () => tokens[place];
    const take = (word) => (next() && next().text.toLowerCase() === word ? tokens[place++] : null);
    const joined = (parts, how) => (parts.length === 1 ? parts[0] : (row) => parts[how]((part) => part(row)));
    function either(depth) {
      const parts = [all(depth)];
      while (take("or")) parts.push(all(depth));
      return joined(parts, "some");
    }
    function all(depth) {
      const parts = [negated(depth)];
      while (next() && next().text !== ")" && next().text.toLowerCase() !== "or") {
        take("and");
        parts.push(negated(depth));
      }
      return joined(parts, "every");
    }
    function negated(depth) {
      const token = next();
      if (!token) throw new QueryError("nothing", text.length, "write a word or key:value there");
      if (depth > DEPTH) {
        throw new QueryError(`more than ${DEPTH} brackets and negations`, token.at, "simplify the query");
      }
      if (take("not")) {
        const inner = negated(depth + 1);
        return (row) => !inner(row);
      }
      if (take("(")) {
        const inner = either(depth + 1);
        if (!take(")")) throw new QueryError("an open bracket", token.at, "close it");
        return inner;
      }
      if (token.text === ")" || WORDS.includes(token.text.toLowerCase())) {
        throw new QueryError(`${quoted(token.text)} without a term before it`, token.at, "write a word or key:value");
      }
      place += 1;
      if (token.text.startsWith("-") && token.text.length > 1) {
        const inner = term(token.text.slice(1), token.at + 1);
        return (row) => !inner(row);
      }
      return term(token.text, token.at);
    }
    if (!tokens.length) return () => true;
    const predicate = either(0);
    if (next()) {
      throw new QueryError(`${quoted(next().text)} without its opening bracket`, next().at, "add or remove a bracket");
    }
    return predicate;
  }

  /* Return completions of the last word of a text: keys, or the known values of its key. */
  function complete(text, vocabulary) {
    const start = text.search(/[^\s()]*$/), before = text.slice(0, start);
    const minus = text[start] === "-" ? "-" : "", word = text.slice(start + minus.length), colon = word.indexOf(":");
    if (colon < 0) {
      return KEYS.filter((key) => key.startsWith(word.toLowerCase())).map((key) => `${before}${minus}${key}:`);
    }
    const head = word.slice(0, colon), key = ALIASES[head.toLowerCase()] || head.toLowerCase();
    const comma = Math.max(colon, word.lastIndexOf(",")), needle = word.slice(comma + 1).replace(/"/g, "").toLowerCase();
    const known = CLOSED[key] || vocabulary[key] || [];
    const quote = (value) => (/[\s(),"]/.test(value) ? `"${value}"` : value);
    return known.filter((value) => value.toLowerCase().includes(needle))
      .sort((a, b) => b.toLowerCase().startsWith(needle) - a.toLowerCase().startsWith(needle)).slice(0, 20)
      .map((value) => `${before}${minus}${word.slice(0, comma + 1)}${quote(value)}`);
  }
  return { parse, complete, KEYS, ALIASES, CLOSED, UNEXPECTED };
})();
if (typeof module !== "undefined") module.exports = conformanceQuery;
