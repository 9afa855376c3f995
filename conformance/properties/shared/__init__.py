"""Parts that the operator, overload, module and optimizer properties share; the folders of kinds import it."""
