// The recordings that the daemon of `uroce-run --ci` makes of its engines.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <set>
#include <string>
#include <vector>

namespace uroce::run {

class Recordings {
 public:
  /// `asked`: where they stay; empty: they go with `run_folder`. Throws std::runtime_error.
  Recordings(const std::filesystem::path& asked, const std::filesystem::path& run_folder);

  /// The daemon's options. Empty where the folder has no room and nobody asked.
  std::vector<std::string> daemon_options() const;
  /// Says how to replay the ends of queue pairs. `ends`: the daemon knows of one, whose recording may come yet.
  void tell(bool ends, std::ostream& out) const;

 private:
  std::set<std::filesystem::path> kept() const;

  std::filesystem::path folder_;
  bool asked_;
  std::set<std::filesystem::path> before_;
};

}  // namespace uroce::run
