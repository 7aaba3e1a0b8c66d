// The answers of a counted program to the questions of tests/bench/instructions: its compiler, its rows.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace uroce::bench {

#ifdef __clang__
inline constexpr char kCompiler[] = "clang++ " __VERSION__;
#else
inline constexpr char kCompiler[] = "g++ " __VERSION__;
#endif

/// --compiler: prints it. True when that was asked.
inline bool tell_compiler(std::span<const std::string_view> words) {
  if (words.size() != 1 || words[0] != "--compiler") return false;
  fmt::print("{}\n", kCompiler);
  return true;
}

/// --list: prints a row and the messages of its shorter run. True when that was asked.
inline bool tell_row(std::span<const std::string_view> words, std::string_view name, uint64_t messages) {
  if (words.size() != 1 || words[0] != "--list") return false;
  fmt::print("{}\t{}\n", name, messages);
  return true;
}

}  // namespace uroce::bench
