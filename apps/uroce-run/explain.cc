#include "explain.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace uroce::run {

namespace {

std::string without_numbers(std::string line) {
  std::erase_if(line, [](unsigned char c) { return std::isdigit(c) != 0; });
  return line;
}

struct Refusal {
  std::string line;
  std::size_t count = 0;
};

/// Equal ones count as one, as do those that differ in numbers alone.
class Refusals {
 public:
  void add(const std::string& line) {
    const auto [place, is_new] = places_.emplace(without_numbers(line), all_.size());
    if (is_new) all_.push_back({.line = line});
    ++all_[place->second].count;
  }
  bool empty() const { return all_.empty(); }
  void print(std::ostream& out) const {
    for (const Refusal& refusal : all_) out << "  " << refusal.count << " x  " << refusal.line << '\n';
  }

 private:
  std::vector<Refusal> all_;
  std::map<std::string, std::size_t> places_;
};

}  // namespace

void collect_refusals(const std::filesystem::path& file) {
  const std::ofstream made(file);
  if (!made) throw std::runtime_error("cannot write " + file.string() + "; set TMPDIR to a folder with free space");
  setenv("UROCE_EXPLAIN", file.c_str(), 1);
}

void print_refusals(const std::filesystem::path& file, std::ostream& out) {
  // The libraries mark a probe (lib/dropin/common/report.cc).
  Refusals refused;
  Refusals probes;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('?')) {
      probes.add(line.substr(1));
    } else {
      refused.add(line);
    }
  }
  out << "uroce-run: uroce refused " << (refused.empty() ? "no call.\n" : "these calls.\n");
  refused.print(out);
  if (probes.empty()) return;
  out << "uroce-run: libraries tried out what the devices have, and expect such answers:\n";
  probes.print(out);
}

}  // namespace uroce::run
