// The calls that uroce refused to a program and its children, for the end of `uroce-run --explain`.
#pragma once

#include <filesystem>
#include <iosfwd>

namespace uroce::run {

/// Makes the file that the libraries write to, and names it in the environment (UROCE_EXPLAIN). Throws
/// std::runtime_error.
void collect_refusals(const std::filesystem::path& file);

/// Prints each refusal in `file` once, with the number of times, in the order of the first. Texts that differ in
/// numbers alone are one; the first one's are printed.
void print_refusals(const std::filesystem::path& file, std::ostream& out);

}  // namespace uroce::run
