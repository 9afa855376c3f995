"""The way from events of a run to verdicts and to the results document."""
