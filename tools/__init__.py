"""Tools of the checkout: mutation testing, generators of committed tables, upstream coverage; in no wheel."""
