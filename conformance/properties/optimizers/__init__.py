"""Properties of optimizers: steps, implementations, options, schedulers, state dicts and gradient scaling."""
