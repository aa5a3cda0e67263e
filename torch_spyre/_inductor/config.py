"""Options of the compiler, as an installed config module: set, patch and save them as torch._inductor.config.

Options marked "no effect" belong to the vendor's compiler; they are accepted so that code which sets them runs unchanged.
"""

import os
import sys

#: Number of cores that programs are planned for; read from SENCORES, as the device description does. Set the variable before
#: the first use of the device: changing this option later has no effect.
sencores: int = int(os.environ.get("SENCORES") or 32)

# No effect: residency in the scratchpad, layouts and work division are chosen by cost.
lx_planning: bool = True
co_optimizing_lx_planning: bool = False
hbm_pool_planning: bool = False
global_stick_optimizer: bool = False
layout_solver: str = "greedy"
dxp_lx_frac_avail: float = 0.2
ignore_work_division_hints: bool = False
work_division_hints: bool = True
allow_all_ops_in_lx_planning: bool = False
chunk_large_tensors: bool = False
unroll_loops: bool = False
backend_compiler: str = ""

# No effect: a new length makes a new instance of the same graph, without buckets.
max_buckets: int = 32
min_default_granularity: int = 1

# No effect: passes are logged by TORCH_LOGS="+torch_spyre".
log_passes: bool = False

from torch.utils._config_module import install_config_module  # noqa: E402

install_config_module(sys.modules[__name__])
