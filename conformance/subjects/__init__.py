"""The subjects of properties: torch's databases, areas of the API and extra modules."""
