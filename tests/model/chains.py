#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""Random chains of runs, commits, undos, rollbacks and foreign edits, over several sandboxes of one original, against a naive model.

By hand: ATOLL_MODEL="seed=7 chains=100 only=overlay-ext4-root kills=1 links=0" tests/model/chains.py
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import modelsuite as s  # noqa: E402

t.run(lambda place, tap: s.main(place, tap, kills=False))
