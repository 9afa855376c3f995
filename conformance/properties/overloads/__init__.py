"""Properties of overloads: requirements on one kernel, in every call form of its overload."""
