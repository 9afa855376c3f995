"""Expected deviations of a target: read their files, judge them by a leg's results, propose new entries."""
