"""Reports that are written from a results document: HTML, JUnit XML, SARIF, terminal text, callbacks."""
