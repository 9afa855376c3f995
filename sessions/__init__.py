"""The code behind the sessions of the noxfile: environments, the wheel of many builds, the matrix."""
