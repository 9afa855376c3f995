"""Properties of overloads: requirements of one kernel and of the other forms of its call."""
