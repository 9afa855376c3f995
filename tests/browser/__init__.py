"""Pages of the suite in a browser, and their scripts in Node."""
