"""The compact store of the site: each backend's results by mode and build, as changes from night to night."""
