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

std::vector<Refusal> read_refusals(const std::filesystem::path& file) {
  std::vector<Refusal> refusals;
  std::map<std::string, std::size_t> places;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto [place, is_new] = places.emplace(without_numbers(line), refusals.size());
    if (is_new) refusals.push_back({.line = line});
    ++refusals[place->second].count;
  }
  return refusals;
}

}  // namespace

void collect_refusals(const std::filesystem::path& file) {
  const std::ofstream made(file);
  if (!made) throw std::runtime_error("cannot write " + file.string() + "; set TMPDIR to a folder with free space");
  setenv("UROCE_EXPLAIN", file.c_str(), 1);
}

void print_refusals(const std::filesystem::path& file, std::ostream& out) {
  const auto refusals = read_refusals(file);
  if (refusals.empty()) {
    out << "uroce-run: uroce refused no call.\n";
    return;
  }
  out << "uroce-run: uroce refused these calls. Libraries that try out limits have some, too.\n";
  for (const Refusal& refusal : refusals) out << "  " << refusal.count << " x  " << refusal.line << '\n';
}

}  // namespace uroce::run
