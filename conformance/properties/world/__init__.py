"""What several ranks do together beyond single collectives."""
