#include "recordings.h"

#include <chrono>
#include <ostream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>

namespace uroce::run {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr const char* kMib = "16";  // of each engine
constexpr uintmax_t kRoom = 256u << 20;
// The daemon copies a recording at once; a busy machine takes longer.
constexpr auto kCopied = 5s;

/// "0x11" of uroce0.0.4711.1.qp-0x11-retry_exceeded.uroce; empty: the file is another one.
std::string qpn_of(const fs::path& file) {
  constexpr std::string_view kBefore = ".qp-";
  const std::string name = file.filename();
  const auto at = name.find(kBefore);
  if (at == std::string::npos || !name.ends_with(".uroce")) return {};  // or it is not whole
  const auto from = at + kBefore.size();
  return name.substr(from, name.find('-', from) - from);
}

/// The path as a word of a shell's command.
std::string shell_word(const fs::path& path) {
  const std::string text = path;
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@%+,";
  if (text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

}  // namespace

Recordings::Recordings(const fs::path& asked, const fs::path& run_folder)
    : folder_(asked.empty() ? run_folder / "recordings" : asked), asked_(!asked.empty()) {
  std::error_code failed;
  fs::create_directories(folder_, failed);
  if (failed && asked_) {
    throw std::runtime_error("cannot make the folder " + folder_.string() + ": " + failed.message() +
                             "; --record names it");
  }
  before_ = kept();
}

std::vector<std::string> Recordings::daemon_options() const {
  std::error_code failed;
  if (!asked_ && (fs::space(folder_, failed).available < kRoom || failed)) return {};
  return {"--record", folder_, "--set", std::string("engines.record_mib=") + kMib};
}

std::set<fs::path> Recordings::kept() const {
  std::set<fs::path> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder_, failed)) {
    if (!qpn_of(entry.path()).empty()) found.insert(entry.path());
  }
  return found;
}

void Recordings::tell(bool ends, std::ostream& out) const {
  if (daemon_options().empty()) return;
  if (!asked_) {
    if (ends) out << "uroce-run: --record DIR keeps recordings of how queue pairs end, for uroce replay\n";
    return;
  }
  auto now = kept();
  const auto limit = std::chrono::steady_clock::now() + kCopied;
  while (ends && now == before_ && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(20ms);
    now = kept();
  }
  for (const fs::path& file : now) {
    if (before_.contains(file)) continue;
    out << "uroce-run: how queue pair " << qpn_of(file) << " ended: uroce replay " << shell_word(file) << " --qp "
        << qpn_of(file) << '\n';
  }
}

}  // namespace uroce::run
