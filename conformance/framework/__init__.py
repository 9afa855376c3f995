"""The building blocks of properties: the recorder, comparisons, calls and tolerances."""
