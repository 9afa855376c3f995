"""Changes to torch and to third-party modules, one file per subject, and the functions that apply them."""
