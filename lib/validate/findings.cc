#include "validate/findings.h"

#include <fmt/format.h>

namespace uroce::validate {

namespace {

/// A program that does wrong everywhere must not fill the disk.
constexpr std::size_t kMostTold = 200;

}  // namespace

std::optional<std::string> Findings::add(const Finding& finding, const std::string& place) {
  const MisuseRow& row = row_of(finding.misuse);
  if ((row.note && !notes_) || allowed_.contains(finding.misuse)) return std::nullopt;
  ++counts_[finding.misuse];
  if (told_.size() >= kMostTold || !told_.emplace(finding.misuse, place).second) return std::nullopt;
  return fmt::format("{} {}: {}: {}; {} (called from {})", row.note ? "note" : "misuse", row.word, row.meaning,
                     finding.text, row.way_out, place);
}

std::string Findings::summary(uint64_t requests) const {
  std::string out;
  for (const auto& [misuse, count] : counts_) {
    out += fmt::format("{}{} {}", out.empty() ? ": " : ", ", row_of(misuse).word, count);
  }
  return fmt::format("{} work requests validated, {}{}", requests, out.empty() ? "no misuse" : "misuses found", out);
}

}  // namespace uroce::validate
