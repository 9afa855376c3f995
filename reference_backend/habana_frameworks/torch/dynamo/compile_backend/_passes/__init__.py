"""The passes, by stage; `passes` puts them in order."""
