"""From the events of a run to verdicts and the results document."""
