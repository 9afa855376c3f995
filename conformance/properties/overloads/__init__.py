"""Properties of single overloads: what holds for one kernel and the other forms of its call."""
