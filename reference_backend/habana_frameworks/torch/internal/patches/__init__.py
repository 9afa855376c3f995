"""Changes to torch and to other modules, a file for each subject, and the means to apply them."""
