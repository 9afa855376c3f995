"""Detection power: which planted faults the suite sees.

A *fault* stands at a *place* (the kernel of one overload of an operator, a function of the device's module),
is of a *kind* (the last element is wrong, a setting is lost), and sleeps unless a call meets its condition.
The way of the data:

1. :mod:`planters` plants the faults of each family and names those there are: for kernels, :mod:`places`
   reads the dispatch table of the device, and :mod:`kinds` says by rule which faults a place can have.
2. :mod:`learning` runs the suite once with no fault active, behind the planters, and writes down which
   results meet the condition of which fault.
3. :mod:`catalogue` makes the mutants out of both: faults, each with the dtype that it is confined to, if any.
4. :mod:`campaign` runs, for each mutant, the results that can wake it, until the first one fails.
5. :mod:`score` counts.

The processes that touch the device are those of :mod:`worker`; :mod:`conformance.process_control.supervisor`
starts, feeds and replaces them.
"""
