"""The processes of a run: rounds of pytest over a plan, until every result is in the journal."""
