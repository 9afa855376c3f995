"""Snippets: standalone scripts that reproduce a failure with torch and the backend only, on a shrunk sample.

``conformance repro`` checks a result in a separate process (:mod:`guarded_run`). Its first failure then
passes through these modules:

* :mod:`rerun` runs the result again, with other samples if requested (``RerunTrial``).
* :mod:`shrinking` tries smaller samples and returns the smallest one with the same failure
  (``ShrinkingResult``).
* :mod:`call_recorder` records the calls of another run and finds the ``FailedComparison``. For a
  comparison of a single call, :mod:`call_snippet` writes the short form: the call with literals, and the
  check function of :mod:`snippet_call_checks`. :mod:`program_snippet` writes the short form of a random
  program.
* Otherwise :mod:`check_snippet` writes the whole check of the property. It requests definitions by (module,
  name). :mod:`inline_source` collects them with their dependencies as syntax trees (:mod:`module_ast`), and
  :mod:`rename_definitions` renames them for the single file. :mod:`snippet_runtime` replaces suite code by
  shorter definitions, with the values that :mod:`snippet_data` computes. :mod:`literals` writes values as
  source text.
* :mod:`script` assembles either form and runs it in a process that cannot import the suite. :mod:`dead_code`
  removes unneeded statements. :mod:`snippet` does these steps and returns the first form that reproduces the
  failure (``Snippet``).

If the device terminates the process, :mod:`crash_snippet` runs the check again and writes the snippet of each
call to disk before the call.

Definitions are copied as ``ast`` trees. LibCST would keep their comments, but needs nine seconds to parse
torch's operator database (28,000 lines), and half a minute to resolve its names. ``ast`` needs a third of a
second.
"""
