"""Mutation testing: count the mutants of a device that the suite kills.

A *mutant* is one deliberate bug at a *mutation point* (the kernel of an overload, a function of the device
module). Its *mutation operator* is the way of being wrong (the last element is wrong, a setting is lost). A
mutant acts only in calls that meet its trigger condition.

The data flow:

* :mod:`injectors` injects the mutants of each layer and lists the possible ones. For kernels, :mod:`points`
  reads the device's dispatch table, and :mod:`operators` selects the mutation operators of each point by
  rule.
* :mod:`coverage_run` runs the suite once without active mutants, and records which results trigger which
  mutant.
* :mod:`draw` draws the mutants of a campaign, some of them confined to one dtype.
* :mod:`campaign` runs, for each mutant, the results that trigger it until one fails.
* :mod:`score` counts the outcomes.

The processes that touch the device run :mod:`worker`. :mod:`conformance.process_control.supervisor` starts,
feeds and replaces them.
"""
