"""Inputs of operators, modules and optimizers, and private copies of them."""
