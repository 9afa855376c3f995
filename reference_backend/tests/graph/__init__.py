"""Tests of recorded graphs: captures, lazy mode, passes, fusion, and their Python interface."""
