"""The passes by stage. `passes` defines their order."""
