#!/bin/bash
# Usage: config/install.sh [build|package|test], by default test, which includes build. Installs the missing Debian packages.
. "$(dirname "$0")/common.sh"
install_packages "${1:-test}"
say "all packages for '${1:-test}' are installed"
