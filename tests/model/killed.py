#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""The random chains of chains.py, with commits, undos and rollbacks that are killed: each has happened wholly or not at all after recover."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import modelsuite as s  # noqa: E402

t.run(lambda place, tap: s.main(place, tap, kills=True))
