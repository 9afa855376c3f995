"""The compatibility matrix: a static site that shows the results of many backends, builds, modes and dates.

The steps from results to pages:

* ``backends/*.toml`` is the registry of the known backends. It changes only by review.
* :mod:`.submissions` reads and checks ``RESULTS/BACKEND/RUN/results.json`` and ``provenance.json``. A run
  that fails a check is refused with a reason.
* :mod:`.matrix_cells` selects the newest run of each backend × build × mode, with its age and its
  regressions.
* :mod:`.pages`, :mod:`.badges` and :mod:`.build` write HTML, SVG and JSON. Untrusted text is escaped.

The publisher of a run chooses its folder, which determines the backend, and writes ``provenance.json``, which
determines the provenance. The results file itself cannot set the backend or the provenance.
"""
