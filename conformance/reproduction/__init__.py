"""Standalone snippets that show a failure with torch and the backend alone, on a shrunk sample.

``conformance repro`` checks a result in a process of its own (:mod:`guard`) and passes its first failure on:

1. :mod:`trial` is the result as something that can be checked again, with other samples if asked.
2. :mod:`shrinking` tries smaller samples on the trial and returns the smallest that fails alike (``Shrunk``).
3. :mod:`tape` records the calls of one more run and finds the ``Comparison`` that failed. If it is one of a
   single call, :mod:`call_snippet` writes the short form: the call with literals, and the function of
   :mod:`call_checks` that judges it. A program has a short form too (:mod:`program_snippet`).
4. Otherwise :mod:`check_snippet` writes the property's own check. It asks for definitions by (module, name);
   :mod:`source` collects them with all that they need as syntax trees (:mod:`modules`), renamed for the one
   file (:mod:`rewriting`). In the place of the suite's machinery it takes the shorter definitions of
   :mod:`standins`, with the values that :mod:`data` computes. :mod:`literal` writes values as source text.
5. :mod:`script` assembles either form, without what is :mod:`unused`, and runs it in a process that cannot
   import the suite. :mod:`snippet` does these steps in turn and returns the first form that was seen to show
   the failure (``Snippet``); the command delivers it.

If the device took the process down, :mod:`crash_log` runs the check once more with the snippet of each call
on disk before the call is made.

Definitions are copied as ``ast`` trees. LibCST would keep their comments, but it takes some nine seconds for
the file with torch's database of operators (28,000 lines), of which ``ast`` takes a third of one, and half a
minute for the names in it, which it resolves for whole modules only.
"""
