#!/bin/bash
# The long tests: every test/soak/*.pl, in test builds, as test/run.sh runs the short ones.
#
#   test/soak/run.sh                     SOAK_MINUTES=N is how long each of them should load the server (10 by default)
#
# They are TAP tests as those in test/t, use the same helpers, and read SOAK_MINUTES from the environment.
exec "$(dirname "$0")/../run.sh" soak
