#!/bin/bash
# Installs the Debian packages that are missing: config/install.sh [build|test], default test (which includes build).
. "$(dirname "$0")/common.sh"
install_packages "${1:-test}"
say "all packages for '${1:-test}' are installed"
