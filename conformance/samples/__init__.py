"""Samples: the inputs of operators, modules and optimizers, and private copies of these inputs."""
