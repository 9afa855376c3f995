"""Tests of snippets: each snippet runs alone on a broken device and on a correct device."""
