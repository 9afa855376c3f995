"""The parts that properties are made of: the recorder, comparisons, invocations and tolerances."""
