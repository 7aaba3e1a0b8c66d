// `uroce fault`: the fault rules of a running daemon.
#pragma once

#include <uroce/error.h>

#include "uroce/command_line.h"

namespace uroce::cli {

Result<void> run_fault_add(const Options& options);
Result<void> run_fault_list(const Options& options);
Result<void> run_fault_clear(const Options& options);
/// The language as Markdown; asks no daemon.
void print_fault_words();

}  // namespace uroce::cli
