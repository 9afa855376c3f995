"""The backend under test, as its target file describes it."""
