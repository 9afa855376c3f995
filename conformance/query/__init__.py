"""The query language for results, used by the command line, the report and the site (``docs/query.md``)."""
