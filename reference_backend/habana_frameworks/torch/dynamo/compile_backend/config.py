"""Options of ``hpu_backend``. Each option is also a key of ``torch.compile(..., options={...})``.

This is a torch config module: ``config.patch(...)``, ``config.save_config()`` and similar functions work.
`configuration_flags` is a mapping of the same options.

Options without effect configure hardware. They are accepted so that programs that set them run.

Raises at import:
    AssertionError: an environment variable has an invalid value; the message names the variable.
"""

import sys

from torch.utils._config_module import install_config_module

from .option_values import DECOMPOSITION_MODES, EXECUTABLES, env_bool, env_choice

# Compile clusters to recipes. If off, their operators run one by one.
use_compiled_recipes: bool = env_bool("PT_HPU_COMPILE_USE_RECIPES", True)
# Which operators are decomposed before a graph is partitioned: habana, core_aten, none, inductor.
decomposition_mode: str = env_choice("PT_HPU_COMPILE_DECOMPOSITION_MODE", "habana", DECOMPOSITION_MODES)
# Inference graphs write to their inputs directly, instead of returning new values that are then copied.
keep_input_mutations: bool = env_bool("PT_HPU_KEEP_INPUT_MUTATIONS", True)
# Operators that recipes cannot contain run separately. If off, these operators are an error.
use_eager_fallback: bool = env_bool("PT_HPU_USE_EAGER_FALLBACK", True)
# Treat parameters as constants in inference graphs. This needs torch._inductor.config.freezing; without it
# Dynamo passes parameters as inputs.
use_graph_freezing: bool = env_bool("PT_HPU_COMPILE_GRAPH_FREEZE", False)
# Free the parameters that freezing converted to constants.
discard_frozen_params: bool = env_bool("PT_HPU_COMPILE_DISCARD_FROZEN_PARAMS", False)
# Remove clones that cannot be distinguished from their source.
remove_unnecessary_clones: bool = env_bool("PT_HPU_COMPILE_REMOVE_UNNECESSARY_CLONES", True)
# The option has no effect, because collectives run between recipes.
use_inplace_allreduce: bool = env_bool("PT_HPU_USE_INPLACE_COLLECTIVE", True)
# In interpreted recipes, index_copy writes in place if its input is not used afterwards.
use_inplace_index_copy: bool = env_bool("PT_HPU_USE_INPLACE_INDEX_COPY", True)
# Use the inference compiler for graphs without gradients.
inference: bool = env_bool("PT_HPU_USE_INFERENCE_COMPILER", True)
# The option has no effect on this device.
enable_sfg: bool = env_bool("PT_HPU_ENABLE_SFG", False)
# The option has no effect, because only one partitioner exists.
use_cpp_partitioner: bool = env_bool("PT_HPU_USE_CPP_PARTITIONER", True)
# The option has no effect, because collectives always split a graph.
enable_allreduce_graph_split: bool = env_bool("PT_HPU_ENABLE_ALLREDUCE_GRAPH_SPLIT", True)
# Compile a recipe for the sizes of each call, even if Dynamo traced with symbolic sizes.
force_static_compile: bool = env_bool("PT_HPU_FORCE_STATIC_COMPILE", False)
# In interpreted recipes, add writes in place if its input is not used afterwards.
reinplace_add: bool = env_bool("PT_HPU_REINPLACE_ADD", True)
# Remove copies into tensors that were created only as the destination of the copy.
reassign_full_copy: bool = env_bool("PT_HPU_REASSIGN_FULL_COPY", True)
# The option has no effect on this device.
reassign_copy_: bool = env_bool("PT_HPU_REASSIGN_COPY_", True)
# The callable takes its inputs in one list and empties the list.
use_boxed_input: bool = env_bool("PT_HPU_USE_BOXED_INPUT", True)
# For fused recipes: fold uniform constants in the joint graph.
joint_graph_constant_folding: bool = True
# Graphs with symbolic sizes run without recipes.
fallback_dynamic_to_eager: bool = False
# The following three options have no effect on this device.
enable_waittensor_graph_split: bool = False
use_generic_reinplacer: bool = False
enable_flex_attention: bool = False

# Reference device only: the kind of recipes. auto: fused if a C++ compiler exists, otherwise interpreted.
executable: str = env_choice("HPU_REFERENCE_COMPILE", "auto", EXECUTABLES)

del DECOMPOSITION_MODES, EXECUTABLES
install_config_module(sys.modules[__name__])


def _add_flags() -> None:
    from .options import ConfigurationFlags

    # A config module accepts only options as attributes, so write `configuration_flags` to its dict directly.
    sys.modules[__name__].__dict__["configuration_flags"] = ConfigurationFlags(sys.modules[__name__])


_add_flags()
