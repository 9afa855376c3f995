"""The compatibility matrix: results of many backends, builds, modes and dates as a static site.

backends/*.toml   registry: the known backends (reviewed changes only) RESULTS/BACKEND/RUN/{results.json,
provenance.json} ──submissions──► checked runs, or a reason why one is refused ──cells──► the newest run of
each backend × build × mode, its age, its regressions since the run before ──pages, badges, data──► HTML and
SVG from templates/, and JSON; untrusted text is escaped

The folder, chosen by the publisher, determines the backend of a run, and the publisher's record of the
channel determines its provenance; a results file can claim neither.
"""
