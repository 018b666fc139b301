#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The whole flow once more on the paths of older kernels: layers by /proc/self/fd instead of by fd, stamps that settle for two ticks.
export ATOLL_OLD_KERNEL=1
exec python3 "$(dirname "$0")/t0100-flow.py"
