#include "uroce/fault.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>

#include "faults/words.h"
#include "uroce/fetch.h"
#include "uroce/show.h"
#include "uroce/terminal.h"

namespace uroce::cli {

namespace {

void print(const std::vector<FaultRow>& rows, bool json) {
  fmt::print("{}", json ? to_json(rows) + '\n' : to_table(rows, columns_of_output()));
}

/// "-" is the standard input.
Result<std::string> read_rules(const std::string& path) {
  using Iterator = std::istreambuf_iterator<char>;
  if (path == "-") return std::string(Iterator(std::cin), Iterator());
  std::ifstream file(path);
  std::string text{Iterator(file), Iterator()};
  if (file.is_open() && !file.bad()) return text;
  return fail(errno, fmt::format("cannot read fault rules from {}: {}", path, std::strerror(errno)));
}

}  // namespace

Result<void> run_fault_add(const Options& options) {
  message::AddFaults request{.source = "rule", .rules = fmt::format("{}", fmt::join(options.rule, " "))};
  if (!options.file.empty()) {
    auto text = read_rules(options.file);
    if (!text) return std::unexpected(text.error());
    request = {.source = options.file, .rules = std::move(*text)};
  }
  const auto added = add_faults(options.source, request);
  if (!added) return std::unexpected(added.error());
  auto rows = fetch_faults(options.source);
  if (!rows) return std::unexpected(rows.error());
  std::erase_if(*rows, [&](const FaultRow& row) { return row.number < added->first || row.number > added->last; });
  print(*rows, options.json);
  return {};
}

Result<void> run_fault_list(const Options& options) {
  const auto rows = fetch_faults(options.source);
  if (!rows) return std::unexpected(rows.error());
  print(*rows, options.json);
  return {};
}

Result<void> run_fault_clear(const Options& options) { return clear_faults(options.source, options.fault); }

void print_fault_words() { fmt::print("{}", faults::reference()); }

}  // namespace uroce::cli
