"""Tests with libraries that people train with on the device, unchanged."""
