"""Snippets of failures, each run alone on a broken device and on a correct one."""
