"""The subjects of properties: operators, modules and optimizers of torch's databases, overloads, API areas,
and subjects of extra modules.
"""
