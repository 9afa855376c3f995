"""Tests of the suite against a third-party device that is compiled here."""
