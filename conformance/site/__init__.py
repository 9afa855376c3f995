"""The compatibility matrix: results of many backends, builds, modes and dates as a static site.

    backends/*.toml   registry: who there is (reviewed changes only)
    RESULTS/BACKEND/RUN/{results.json, provenance.json}
        ──submissions──► checked runs, or a reason why one is refused
        ──cells──► the newest run of each backend × build × mode, its age, what regressed since the one before
        ──pages, badges, data──► HTML, SVG and JSON; texts of others are escaped, nothing is executed

A backend is the folder that the publisher has put a run into, and where it comes from is what the publisher
wrote down of the channel; a results file can claim neither.
"""
