"""Start and watch the processes of a run: pytest runs in rounds until every result is in the journal."""
