"""What the sessions of the noxfile do, apart from it: environments, the wheel of many builds, the matrix."""
