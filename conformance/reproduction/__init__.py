"""Standalone snippets that show a failure with torch and the backend alone, on a shrunk sample."""
