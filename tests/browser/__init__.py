"""Tests of the suite's pages in a browser, and of their scripts in Node."""
