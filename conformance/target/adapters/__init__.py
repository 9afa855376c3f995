"""Hooks for target files of backends whose own API has no single function for the purpose of the hook."""
