"""The properties: statements that must hold for a subject, by kind of subject."""
