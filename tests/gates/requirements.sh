#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every requirement is listed, and every test named for one exists.
set -u
exec "$SRC/scripts/check-requirements"
