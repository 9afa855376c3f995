"""The runner: rounds of pytest over a plan, and a ledger of what became of each result."""
