// The misuses of a process: each is told once for each place of the program, and counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "validate/options.h"

namespace uroce::validate {

class Findings {
 public:
  explicit Findings(const Options& options) : allowed_(options.allowed), notes_(options.notes) {}

  /// The line to print for a finding at a place ("prog+0x11a4"); nullopt where the place had it already, where notes
  /// are not asked for, where the program allows it, or where too many were told.
  std::optional<std::string> add(const Finding& finding, const std::string& place);
  /// The last line of a program that posted so many requests.
  std::string summary(uint64_t requests) const;
  bool any() const { return !counts_.empty(); }
  /// Forgets the numbers, as a child of fork() does.
  void restart() { counts_.clear(); }

 private:
  std::set<std::pair<Misuse, std::string>> told_;
  std::map<Misuse, uint64_t> counts_;
  const std::set<Misuse> allowed_;
  const bool notes_;
};

}  // namespace uroce::validate
