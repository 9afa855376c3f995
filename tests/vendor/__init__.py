"""Tests of the suite on a third-party device, the tiny device, which the tests compile."""
