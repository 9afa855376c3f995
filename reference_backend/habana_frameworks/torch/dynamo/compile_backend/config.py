"""Options of ``hpu_backend``; each is a key of ``torch.compile(..., options={...})`` as well.

A config module of torch's: ``config.patch(...)``, ``config.save_config()`` and the like work.
`configuration_flags` is the same as a mapping.

Options marked "no effect" belong to hardware; they are accepted so that programs run.

Raises at import:
    AssertionError: a variable has no truth value or an unknown word; the message names it.
"""

import sys

from torch.utils._config_module import install_config_module

from .option_values import DECOMPOSITION_MODES, EXECUTABLES, env_bool, env_choice

# Make recipes of clusters; off: their operators run one by one.
use_compiled_recipes: bool = env_bool("PT_HPU_COMPILE_USE_RECIPES", True)
# Which operators are decomposed before a graph is cut: habana, core_aten, none, inductor.
decomposition_mode: str = env_choice("PT_HPU_COMPILE_DECOMPOSITION_MODE", "habana", DECOMPOSITION_MODES)
# Inference graphs write to their inputs themselves, instead of returning new values to be copied.
keep_input_mutations: bool = env_bool("PT_HPU_KEEP_INPUT_MUTATIONS", True)
# Operators that cannot be part of a recipe run by themselves; off: they are an error.
use_eager_fallback: bool = env_bool("PT_HPU_USE_EAGER_FALLBACK", True)
# Treat parameters as constants in inference graphs; needs torch._inductor.config.freezing, without which
# Dynamo hands them over as inputs.
use_graph_freezing: bool = env_bool("PT_HPU_COMPILE_GRAPH_FREEZE", False)
# Free the parameters that freezing made constants.
discard_frozen_params: bool = env_bool("PT_HPU_COMPILE_DISCARD_FROZEN_PARAMS", False)
# Drop clones that cannot be distinguished from their source.
remove_unnecessary_clones: bool = env_bool("PT_HPU_COMPILE_REMOVE_UNNECESSARY_CLONES", True)
# No effect: collectives run between recipes.
use_inplace_allreduce: bool = env_bool("PT_HPU_USE_INPLACE_COLLECTIVE", True)
# index_copy writes in place if its input is not used again (interpreted recipes).
use_inplace_index_copy: bool = env_bool("PT_HPU_USE_INPLACE_INDEX_COPY", True)
# Use the inference compiler for graphs without gradients.
inference: bool = env_bool("PT_HPU_USE_INFERENCE_COMPILER", True)
# No effect.
enable_sfg: bool = env_bool("PT_HPU_ENABLE_SFG", False)
# No effect: there is one partitioner.
use_cpp_partitioner: bool = env_bool("PT_HPU_USE_CPP_PARTITIONER", True)
# No effect: collectives always cut a graph.
enable_allreduce_graph_split: bool = env_bool("PT_HPU_ENABLE_ALLREDUCE_GRAPH_SPLIT", True)
# Make recipes for the sizes of each call, even if Dynamo traced with symbolic sizes.
force_static_compile: bool = env_bool("PT_HPU_FORCE_STATIC_COMPILE", False)
# add writes in place if its input is not used again (interpreted recipes).
reinplace_add: bool = env_bool("PT_HPU_REINPLACE_ADD", True)
# Drop copies into tensors that were made only as their destination.
reassign_full_copy: bool = env_bool("PT_HPU_REASSIGN_FULL_COPY", True)
# No effect.
reassign_copy_: bool = env_bool("PT_HPU_REASSIGN_COPY_", True)
# The callable takes its inputs in one list, which it empties.
use_boxed_input: bool = env_bool("PT_HPU_USE_BOXED_INPUT", True)
# Fold uniform constants in the joint graph (fused recipes).
joint_graph_constant_folding: bool = True
# Graphs with symbolic sizes run without recipes.
fallback_dynamic_to_eager: bool = False
# No effect, all three.
enable_waittensor_graph_split: bool = False
use_generic_reinplacer: bool = False
enable_flex_attention: bool = False

# Reference device only. The form of recipes; auto: fused if there is a C++ compiler, else interpreted.
executable: str = env_choice("HPU_REFERENCE_COMPILE", "auto", EXECUTABLES)

del DECOMPOSITION_MODES, EXECUTABLES
install_config_module(sys.modules[__name__])


def _add_flags() -> None:
    from .options import ConfigurationFlags

    # A config module takes no attribute that is not an option.
    sys.modules[__name__].__dict__["configuration_flags"] = ConfigurationFlags(sys.modules[__name__])


_add_flags()
