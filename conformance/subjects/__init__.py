"""The subjects of properties: entries of torch's databases, areas of the API and extra modules."""
