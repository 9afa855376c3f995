"""Properties of modules: outputs, gradients, state dicts, copies, transfers between devices and modes."""
