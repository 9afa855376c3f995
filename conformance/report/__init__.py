"""Reports for people, made from a results document alone."""
