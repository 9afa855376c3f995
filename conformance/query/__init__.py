"""The search language of results, for the command line, the report and the site (``docs/query.md``)."""
