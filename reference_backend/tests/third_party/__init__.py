"""Tests with unmodified third-party training libraries on the device."""
