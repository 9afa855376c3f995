"""The code of the nox sessions: environments, the wheel for several torch builds, the matrix, lint tools."""
